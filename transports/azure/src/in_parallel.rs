//! A bounded number of requests at a time.

use futures_util::{StreamExt, stream};

/// Awaits all futures, at most `most` at a time; the outputs are in order.
pub(crate) async fn in_parallel<F: Future>(mut futures: Vec<F>, most: u32) -> Vec<F::Output> {
    // Most calls have one: it needs no list of what is running.
    if futures.len() == 1
        && let Some(only) = futures.pop()
    {
        return vec![only.await];
    }
    stream::iter(futures).buffered(most as usize).collect().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_than_the_limit_run_at_a_time_and_outputs_are_in_order() {
        let (running, peak) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = |number: u32| {
            let (running, peak) = (&running, &peak);
            async move {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                number
            }
        };
        let outputs = in_parallel((0..50).map(work).collect(), 7).await;
        assert_eq!(outputs, (0..50).collect::<Vec<_>>());
        assert_eq!(peak.into_inner(), 7);
    }
}

//! The measurements of one try.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use bezoar::{Clock, Context, HandlerError};
use tokio::time::Instant;

use super::RouteMetrics;

/// A try in progress; if it is dropped before its end, it was cancelled.
#[derive(Debug)]
pub(super) struct MeasuredTry {
    route: RouteMetrics,
    age: Option<Duration>,
    started: Instant,
    result: TryResult,
}

impl MeasuredTry {
    pub(super) fn begin(route: &RouteMetrics, context: &Context) -> Self {
        route.series.in_flight.fetch_add(1, Relaxed);
        Self {
            route: route.clone(),
            age: age(&*route.shared.clock, context),
            started: Instant::now(),
            result: TryResult::Cancelled,
        }
    }

    pub(super) fn ended(mut self, outcome: &Result<(), HandlerError>) {
        self.result = match outcome {
            Ok(()) => TryResult::Ok,
            Err(HandlerError::Failed(failed)) if failed.0.kind.is_retryable() => {
                TryResult::Retryable
            }
            Err(HandlerError::Failed(_)) => TryResult::Permanent,
            Err(HandlerError::Uncounted(_)) => TryResult::Uncounted,
            Err(_) => TryResult::Postponed,
        };
    }
}

impl Drop for MeasuredTry {
    fn drop(&mut self) {
        let RouteMetrics { shared, series } = &self.route;
        series.in_flight.fetch_sub(1, Relaxed);
        let Some(labels) = series.by_result.get(self.result as usize) else { return };
        shared.histograms.delivering.record(self.started.elapsed().as_secs_f64(), labels);
        if let Some(age) = self.age {
            let label = std::slice::from_ref(&series.label);
            shared.histograms.reaching.record(age.as_secs_f64(), label);
        }
    }
}

/// The time since acceptance; only meaningful for the first attempt.
fn age(clock: &dyn Clock, context: &Context) -> Option<Duration> {
    let first = context.attempt == 1 && context.message.ledger.replayed == 0;
    let age = first.then(|| clock.now().duration_since(context.message.time))?;
    Some(Duration::try_from(age).unwrap_or_default()) // a sender's clock may be ahead
}

/// How a try ended; the index of its labels.
#[derive(Debug, Clone, Copy)]
enum TryResult {
    Ok,
    Retryable,
    Permanent,
    Cancelled,
    /// It failed and did not use up a retry.
    Uncounted,
    /// Nothing was tried; it has no labels.
    Postponed,
}

/// In the order of [`TryResult`], except the last.
pub(super) const RESULTS: [&str; 5] = ["ok", "retryable", "permanent", "cancelled", "uncounted"];

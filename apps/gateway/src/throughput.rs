//! Recent throughput.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// The length of the window in seconds.
const WINDOW: usize = 10;

/// Counts events per second. Cheap enough for every message.
#[derive(Debug)]
pub(crate) struct Throughput {
    start: Instant,
    /// Each slot packs a second and its count, 32 bits each.
    slots: [AtomicU64; WINDOW + 1],
}

impl Default for Throughput {
    fn default() -> Self {
        Self { start: Instant::now(), slots: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Throughput {
    /// Counts an event.
    pub(crate) fn count(&self) {
        let second = self.second();
        let slot = &self.slots[second as usize % self.slots.len()];
        let next = |held: u64| Some(if held >> 32 == second { held + 1 } else { second << 32 | 1 });
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Events per second, over the last ten whole seconds or since the start.
    pub(crate) fn per_second(&self) -> f64 {
        let now = self.second();
        let window = (now - 1).clamp(1, WINDOW as u64);
        let recent = |held: &u64| (held >> 32) < now && (held >> 32) + window >= now;
        let counted: u64 = self
            .slots
            .iter()
            .map(|slot| slot.load(Ordering::Relaxed))
            .filter(recent)
            .map(|held| held & 0xffff_ffff)
            .sum();
        counted as f64 / window as f64
    }

    /// Whole seconds since the start, from 1, so that an empty slot matches none.
    fn second(&self) -> u64 {
        self.start.elapsed().as_secs() + 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_events_do_not_count() {
        let throughput = Throughput::default();
        for _ in 0..5 {
            (0..20).for_each(|_| throughput.count());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(throughput.per_second(), 20.0);
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(throughput.per_second(), 8.0); // 4 of the last 10 seconds
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(throughput.per_second(), 0.0);
    }
}

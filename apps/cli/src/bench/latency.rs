//! Latency histograms.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest duration that is distinguished; longer ones count as this.
const LONGEST_MICROS: u64 = 3_600 * 1_000_000;

/// Durations to three significant digits, in constant memory.
#[derive(Debug, Clone)]
pub(super) struct Latency(Histogram<u64>);

/// Percentiles in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
}

impl Latency {
    pub(super) fn record(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds the recordings of another histogram.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// `None` if nothing was recorded.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let millis = |micros: u64| micros as f64 / 1_000.0;
        let at = |quantile| millis(self.0.value_at_quantile(quantile).min(self.0.max()));
        (!self.0.is_empty()).then(|| Percentiles {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: millis(self.0.max()),
        })
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("these bounds are right"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_match_the_recorded_durations() {
        assert_eq!(Latency::default().percentiles(), None);
        let (mut one, mut other) = (Latency::default(), Latency::default());
        (1..=500).for_each(|millis| one.record(Duration::from_millis(millis)));
        (501..=1_000).for_each(|millis| other.record(Duration::from_millis(millis)));
        one.add(&other);
        let Percentiles { p50, p90, p99, p99_9, max } = one.percentiles().unwrap();
        for (found, expected) in
            [(p50, 500.0), (p90, 900.0), (p99, 990.0), (p99_9, 999.0), (max, 1_000.0)]
        {
            assert!((found - expected).abs() / expected < 0.002, "{found} for {expected}");
        }
    }

    #[test]
    fn a_duration_beyond_the_limit_is_recorded_as_the_limit() {
        let mut latency = Latency::default();
        latency.record(Duration::from_secs(1 << 40));
        assert!(latency.percentiles().unwrap().max >= 3_600_000.0);
    }
}

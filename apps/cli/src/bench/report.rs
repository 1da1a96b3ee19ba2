//! The report of a load test.

use std::{fmt, num::NonZeroU32, time::Duration};

use bezoar_gateway::config::human::size;
use serde::Serialize;

use super::latency::Percentiles;
use crate::humanize;

/// The report of a load test. Every accepted message is delivered, waiting or dead.
#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    pub(super) gateway: String,
    pub(super) queue: String,
    pub(super) size_bytes: usize,
    pub(super) connections: u32,
    pub(super) rate: Option<NonZeroU32>,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) delivered: u64,
    /// Deliveries beyond the first of a message; unknown if they did not arrive here.
    pub(super) repeated: Option<u64>,
    pub(super) waiting: u64,
    pub(super) dead: u64,
    pub(super) accepted_per_second: f64,
    pub(super) delivered_per_second: f64,
    pub(super) acceptance_ms: Option<Percentiles>,
    pub(super) arrival_ms: Option<Percentiles>,
}

impl BenchReport {
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings serialize to JSON")
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, connections) = (size::format(self.size_bytes as u64), self.connections);
        let queue = &self.queue;
        write!(f, "{}, queue {queue}: {size} each over {connections} connections", self.gateway)?;
        if let Some(rate) = self.rate {
            write!(f, ", at most {} per second", humanize::count(rate.get().into()))?;
        }
        writeln!(f, "\n")?;
        self.counts(f)?;
        writeln!(
            f,
            "\n{:11}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "", "p50", "p90", "p99", "p99.9", "max"
        )?;
        row(f, "acceptance", self.acceptance_ms)?;
        writeln!(f)?;
        row(f, "arrival", self.arrival_ms)
    }
}

impl BenchReport {
    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count, rate) in [
            ("accepted", self.accepted, self.accepted_per_second),
            ("delivered", self.delivered, self.delivered_per_second),
        ] {
            writeln!(
                f,
                "{name:11}{:>11}{:>11} per second",
                humanize::count(count),
                humanize::rate(rate)
            )?;
        }
        // Counts that should be 0 are shown only if they are not.
        for (name, count) in [
            ("refused", self.refused),
            ("repeated", self.repeated.unwrap_or(0)),
            ("waiting", self.waiting),
            ("dead", self.dead),
        ] {
            if count > 0 {
                writeln!(f, "{name:11}{:>11}", humanize::count(count))?;
            }
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, percentiles: Option<Percentiles>) -> fmt::Result {
    write!(f, "{name:11}")?;
    let Some(Percentiles { p50, p90, p99, p99_9, max }) = percentiles else {
        return write!(f, "{:>11}", "not measured");
    };
    [p50, p90, p99, p99_9, max].iter().try_for_each(|ms| write!(f, "{:>11}", took(*ms)))
}

/// `3.25 ms`: two decimals below 10 ms.
fn took(ms: f64) -> String {
    match ms {
        ..10.0 => format!("{ms:.2} ms"),
        ..1_000.0 => format!("{ms:.0} ms"),
        _ => humanize::duration(Duration::from_secs_f64(ms / 1_000.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_sensible_precision() {
        for (ms, expected) in
            [(0.123, "0.12 ms"), (9.994, "9.99 ms"), (10.4, "10 ms"), (1_250.0, "1.2 s")]
        {
            assert_eq!(took(ms), expected);
        }
    }
}

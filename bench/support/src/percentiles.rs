//! How long things took.

use std::fmt;

/// Times in microseconds, in order.
#[derive(Debug)]
pub struct Percentiles(Vec<u32>);

impl Percentiles {
    /// The time that this share of all did not exceed, in milliseconds.
    pub fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let micros = self.0.get((last as f64 * share).round() as usize).copied();
        f64::from(micros.unwrap_or_default()) / 1e3
    }
}

impl FromIterator<u32> for Percentiles {
    fn from_iter<T: IntoIterator<Item = u32>>(times: T) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| self.at(share));
        write!(f, "p50 {p50:.1} ms, p99 {p99:.1} ms, max {max:.1} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_times_in_order() {
        let times: Percentiles = (0..=1_000).rev().map(|it| it * 1_000).collect();
        assert_eq!(times.to_string(), "p50 500.0 ms, p99 990.0 ms, max 1000.0 ms");
    }
}

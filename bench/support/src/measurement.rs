//! Rates and their medians.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// The fastest round may be this much faster than the slowest.
const STEADY: f64 = 1.5;

/// Something that happened so many times a second.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Of what.
    pub name: String,
    /// How often.
    pub per_second: f64,
}

impl Measurement {
    /// A rate that somebody else has measured.
    pub fn new(name: &str, per_second: f64) -> Self {
        Self { name: name.to_owned(), per_second }
    }

    /// Times `work`, which handles `count` messages.
    pub fn of(name: &str, count: u64, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        work().with_context(|| format!("measuring {name}"))?;
        let per_second = count as f64 / start.elapsed().as_secs_f64();
        Ok(Self::new(name, per_second))
    }
}

/// The same measurements, several times over.
#[derive(Debug, Default)]
pub struct Rounds(Vec<Measurement>);

impl Rounds {
    /// Adds those of a round.
    pub fn add(&mut self, measurements: impl IntoIterator<Item = Measurement>) {
        self.0.extend(measurements);
    }

    /// The median of all measurements of this name: one slow moment does not count.
    pub fn median(&self, name: &str) -> Result<Measurement> {
        let rates = self.sorted(name);
        let per_second = *rates.get(rates.len() / 2).with_context(|| format!("no {name:?}"))?;
        Ok(Measurement::new(name, per_second))
    }

    /// The median of how many times as fast `subject` was as `baseline`, round by round: both had the same moment
    /// of the machine.
    pub fn ratio(&self, subject: &str, baseline: &str) -> Result<f64> {
        let ratios = self.ratios(subject, baseline);
        let median = ratios.get(ratios.len() / 2).copied();
        median.with_context(|| format!("no round has both {subject:?} and {baseline:?}"))
    }

    /// How many times as fast `subject` was as `baseline` in each round, sorted.
    pub fn ratios(&self, subject: &str, baseline: &str) -> Vec<f64> {
        let of = |name: &str| -> Vec<f64> {
            self.0.iter().filter(|m| m.name == name).map(|m| m.per_second).collect()
        };
        let mut ratios: Vec<f64> = of(subject)
            .iter()
            .zip(of(baseline))
            .map(|(subject, baseline)| subject / baseline)
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// A warning for each measurement that differs from round to round by more than it should.
    pub fn unsteady(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.0.iter().map(|m| m.name.as_str()).collect();
        names.into_iter().filter_map(|name| self.unsteadiness(name)).collect()
    }

    fn unsteadiness(&self, name: &str) -> Option<String> {
        let rates = self.sorted(name);
        let (slowest, fastest) = (*rates.first()?, *rates.last()?);
        (fastest > slowest * STEADY).then(|| {
            format!("UNSTEADY {name}: from {slowest:.0} to {fastest:.0}; repeat on a quiet machine")
        })
    }

    fn sorted(&self, name: &str) -> Vec<f64> {
        let mut rates: Vec<f64> =
            self.0.iter().filter(|m| m.name == name).map(|m| m.per_second).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(name: &str, per_second: f64) -> Measurement {
        Measurement::new(name, per_second)
    }

    #[test]
    fn median_ignores_order_outliers_and_other_names() {
        let mut rounds = Rounds::default();
        rounds.add([rate("a", 9000.0), rate("b", 1.0)]);
        rounds.add([rate("a", 10.0)]);
        rounds.add([rate("a", 20.0)]);
        assert_eq!(rounds.median("a").unwrap(), rate("a", 20.0));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut rounds = Rounds::default();
        for (ours, limit) in [(9.0, 10.0), (90.0, 100.0), (1.0, 2.0)] {
            rounds.add([rate("ours", ours), rate("limit", limit)]);
        }
        assert_eq!(rounds.ratio("ours", "limit").unwrap(), 0.9);
        assert_eq!(rounds.ratios("ours", "limit"), [0.5, 0.9, 0.9]);
        assert!(rounds.ratio("ours", "another").is_err());
    }

    #[test]
    fn only_what_varies_is_unsteady() {
        let mut rounds = Rounds::default();
        rounds.add([rate("steady", 10.0), rate("unsteady", 10.0)]);
        rounds.add([rate("steady", 14.0), rate("unsteady", 16.0)]);
        let warnings = rounds.unsteady();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("UNSTEADY unsteady"), "{warnings:?}");
    }

    #[test]
    fn median_of_nothing_is_an_error() {
        assert!(Rounds::default().median("a").is_err());
    }
}

//! Named steps, timed, the first failure ending the run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::say::say;

/// What ran so far and how long it took.
#[derive(Default)]
pub(crate) struct Steps {
    finished: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Announces a step and does its work; the error of a failing one says its name.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        say(format_args!("\n==> {name}"));
        let start = Instant::now();
        let outcome = work();
        self.finished.push((name, start.elapsed()));
        outcome.with_context(|| format!("step `{name}` failed"))
    }

    /// A line per step with its time, and their sum.
    pub(crate) fn summary(&self) -> String {
        let total = self.finished.iter().map(|(_, took)| *took).sum();
        let lines = self.finished.iter().copied().chain([("together", total)]);
        lines.map(|(name, took)| format!("{:>8.1} s  {name}\n", took.as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failing_step_is_named_and_still_timed() {
        let mut steps = Steps::default();
        let error = steps.run("weave", || -> Result<()> { bail!("no thread") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `weave` failed: no thread");
        assert!(steps.summary().contains("s  weave\n"));
    }

    #[test]
    fn the_summary_adds_up() {
        let finished =
            vec![("tidy", Duration::from_millis(200)), ("tests", Duration::from_secs(61))];
        let summary = Steps { finished }.summary();
        assert_eq!(summary, "     0.2 s  tidy\n    61.0 s  tests\n    61.2 s  together\n");
    }
}

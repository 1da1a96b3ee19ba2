//! Named steps, timed. A failing step ends the run, or is reported at its end with the others.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::say::{complain, say};

/// The steps so far, with their times.
#[derive(Default)]
pub(crate) struct Steps {
    finished: Vec<(&'static str, Duration)>,
    /// Name and reason.
    ignored: Vec<(&'static str, String)>,
    failed: Vec<String>,
}

impl Steps {
    /// Announces and runs a step. An error names the step.
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

    /// As [`run`](Self::run), but a failure is reported by [`outcome`](Self::outcome): the steps after it do not
    /// depend on it, and one failure must not hide another.
    pub(crate) fn check(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        if let Err(error) = self.run(name, work) {
            complain(format_args!("error: {error:#}"));
            self.failed.push(format!("{error:#}"));
        }
    }

    /// Whether all checks passed.
    pub(crate) fn outcome(&self) -> Result<()> {
        match &self.failed[..] {
            [] => Ok(()),
            failed => bail!("{}", failed.join("\n")),
        }
    }

    /// Records a step that cannot run here, and why. That is not a failure; the summary shows it.
    pub(crate) fn ignore(&mut self, name: &'static str, reason: String) {
        say(format_args!("\n==> {name}: ignored, {reason}"));
        self.ignored.push((name, reason));
    }

    /// A line per step with its time, their sum, and what was ignored.
    pub(crate) fn summary(&self) -> String {
        let total = self.finished.iter().map(|(_, took)| *took).sum();
        let lines = self.finished.iter().copied().chain([("together", total)]);
        let lines = lines.map(|(name, took)| format!("{:>8.1} s  {name}\n", took.as_secs_f64()));
        let ignored = self.ignored.iter();
        lines.chain(ignored.map(|(name, why)| format!("   ignored  {name}: {why}\n"))).collect()
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
    fn a_failing_check_does_not_hide_the_next() {
        let mut steps = Steps::default();
        for name in ["weave", "sew"] {
            steps.check(name, || bail!("no thread"));
        }
        steps.check("iron", || Ok(()));
        let outcome = steps.outcome().unwrap_err().to_string();
        assert_eq!(outcome, "step `weave` failed: no thread\nstep `sew` failed: no thread");
    }

    #[test]
    fn the_summary_adds_up() {
        let finished =
            vec![("tidy", Duration::from_millis(200)), ("tests", Duration::from_secs(61))];
        let ignored = vec![("more", "no root".to_owned())];
        let summary = Steps { finished, ignored, failed: vec![] }.summary();
        let expected = "     0.2 s  tidy\n    61.0 s  tests\n    61.2 s  together\n   ignored  more: no root\n";
        assert_eq!(summary, expected);
    }
}

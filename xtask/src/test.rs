//! `cargo xtask test`: everything that must hold, on a fresh machine too.

use std::path::Path;

use anyhow::Result;

use crate::{
    install,
    process::{cargo, run as run_command, succeeds},
    say::say,
    steps::Steps,
    tidy,
};

/// Runs every step up to the first that fails, then shows how long each took.
pub(crate) fn run(root: &Path, filters: &[String]) -> Result<()> {
    let mut steps = Steps::default();
    let outcome = run_steps(root, filters, &mut steps);
    say(format_args!("\n{}", steps.summary()));
    outcome
}

/// A server that tests need is started between tidy and the suites, which run while it lives.
fn run_steps(root: &Path, filters: &[String], steps: &mut Steps) -> Result<()> {
    steps.run("install", install::run)?;
    steps.run("tidy", || tidy::run(root))?;
    for suite in suites(Runner::available(root)) {
        steps.run(suite.name, || suite.run(root, filters))?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    Cargo,
}

impl Runner {
    fn available(root: &Path) -> Self {
        let nextest = succeeds(cargo(root).args(["nextest", "--version"]));
        if nextest { Self::Nextest } else { Self::Cargo }
    }
}

/// A call of cargo that runs tests.
struct Suite {
    name: &'static str,
    arguments: &'static [&'static str],
}

impl Suite {
    /// Filters go behind `--`, where all runners accept more than one.
    fn run(&self, root: &Path, filters: &[String]) -> Result<()> {
        let mut command = cargo(root);
        command.args(self.arguments);
        if !filters.is_empty() {
            command.arg("--").args(filters);
        }
        run_command(&mut command)
    }
}

/// Nextest is faster and isolates tests, but runs no doctests: these get a suite of their own.
fn suites(runner: Runner) -> &'static [Suite] {
    match runner {
        Runner::Nextest => &[
            Suite { name: "tests", arguments: &["nextest", "run", "--workspace"] },
            Suite { name: "doctests", arguments: &["test", "--workspace", "--doc"] },
        ],
        Runner::Cargo => {
            &[Suite { name: "tests and doctests", arguments: &["test", "--workspace"] }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(runner: Runner, expected: &[&str]) {
        let calls: Vec<_> = suites(runner).iter().map(|suite| suite.arguments.join(" ")).collect();
        assert_eq!(calls, expected);
    }

    #[test]
    fn doctests_run_with_either_runner() {
        check(Runner::Nextest, &["nextest run --workspace", "test --workspace --doc"]);
        check(Runner::Cargo, &["test --workspace"]);
    }
}

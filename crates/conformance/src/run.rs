//! Running one case.

use std::{io::Write, time::Duration};

use tokio::{runtime::Builder, time::timeout};

use crate::{Harness, Listed, all, case::Case};

/// The outcome of a case that did not fail. Exhaustive: a case either passes or is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The promise was kept.
    Passed,
    /// The transport does not make the promise, for this reason.
    Skipped(&'static str),
}

impl Listed {
    /// Runs the case against a fresh transport.
    ///
    /// # Panics
    ///
    /// If the transport breaks the promise, or takes longer than the harness's deadline.
    pub async fn run(&self, harness: Box<dyn Harness>) -> Outcome {
        let can = harness.transport().capabilities();
        if let Some(reason) = self.needs.iter().find_map(|lacks| lacks(&can)) {
            return Outcome::Skipped(reason);
        }
        let (deadline, name) = (harness.deadline(), self.name);
        let case = async { (self.case)(Case::open(name, harness).await).await };
        if timeout(deadline, case).await.is_err() {
            panic!("{name}: still waiting after {deadline:?}");
        }
        Outcome::Passed
    }
}

/// Runs the case `subject::name` as a test, with a fresh harness. Called by [`suite!`](crate::suite).
///
/// # Panics
///
/// If the transport breaks the promise.
pub fn check<H: Harness + 'static, F: Future<Output = H>>(
    subject: &str,
    name: &str,
    harness: impl FnOnce() -> F,
) {
    let case = all().into_iter().find(|case| case.subject == subject && case.name == name);
    let case = case.expect("the suite is generated from the same list");
    // Two threads, so that faults that need parallelism can occur.
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the runtime can start");
    let outcome = runtime.block_on(async { case.run(Box::new(harness().await)).await });
    if let Outcome::Skipped(reason) = outcome {
        // Bypasses the capture of test output, so that skipped cases are always visible.
        let line = format!("skipped {subject}::{name}: {reason}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
}

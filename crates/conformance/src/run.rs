//! Running one case.

use std::{
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{runtime::Builder, time::timeout};

use crate::{Harness, Listed, all, case::Case, pace::Pace};

/// How often a case is run if it fails on a machine that is too busy for it.
const RUNS: u32 = 4;

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
        self.run_at(Arc::new(Pace::start()), harness).await
    }

    async fn run_at(&self, pace: Arc<Pace>, harness: Box<dyn Harness>) -> Outcome {
        let can = harness.transport().capabilities();
        if let Some(reason) = self.needs.iter().find_map(|lacks| lacks(&can)) {
            return Outcome::Skipped(reason);
        }
        let (deadline, name) = (harness.deadline(), self.name);
        let case = async { (self.case)(Case::open(name, harness, pace).await).await };
        if timeout(deadline, case).await.is_err() {
            panic!("{name}: still waiting after {deadline:?}");
        }
        Outcome::Passed
    }
}

/// Runs the case `subject::name` as a test, with a fresh harness. Called by [`suite!`](crate::suite).
///
/// A case that fails after it was stopped for half a tick proves nothing, and is run again.
///
/// # Panics
///
/// If the transport breaks the promise.
pub fn check<H: Harness + 'static, F: Future<Output = H>>(
    subject: &str,
    name: &str,
    harness: impl Fn() -> F,
) {
    let case = all().into_iter().find(|case| case.subject == subject && case.name == name);
    let case = case.expect("the suite is generated from the same list");
    for run in 1.. {
        let pace = Arc::new(Pace::start());
        let mut tick = Duration::MAX;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            once(async {
                let harness = harness().await;
                tick = harness.tick();
                case.run_at(pace.clone(), Box::new(harness)).await
            })
        }));
        let lost = pace.lost();
        match outcome {
            Ok(Outcome::Passed) => return,
            Ok(Outcome::Skipped(reason)) => {
                return say(&format!("skipped {subject}::{name}: {reason}"));
            }
            Err(_) if run < RUNS && lost > tick / 2 => {
                say(&format!("again {subject}::{name}: the machine stopped it for {lost:.1?}"));
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Runs on two threads, so that faults that need parallelism can occur.
fn once(case: impl Future<Output = Outcome>) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the runtime can start");
    let outcome = runtime.block_on(case);
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Bypasses the capture of test output, so that the line is always visible.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

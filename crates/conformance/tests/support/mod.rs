//! Running cases against transports that are broken on purpose.

mod broken;
mod defects;
mod small;
mod twist;

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, set_hook, take_hook},
    sync::{Arc, Once},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_conformance::{Harness, Listed, Outcome};
use bezoar_core::{ManualClock, QueueAdmin, Transport};
use bezoar_memory::{MemoryTransport, Options};
use broken::{Broken, Defect, Store};
use futures_util::FutureExt;
use tokio::runtime::Builder;
use twist::Twist;

pub(crate) use defects::controls;
pub(crate) use small::SmallQueues;

/// A defect, and the cases that must catch it.
pub(crate) struct Control {
    pub(crate) defect_name: &'static str,
    pub(crate) caught_by: &'static [&'static str],
    defect: Box<dyn Fn() -> Arc<dyn Defect>>,
}

impl Control {
    /// Creates a fresh defect for each case, because some defects have state.
    pub(crate) fn new<D: Defect>(
        defect_name: &'static str,
        defect: impl Fn() -> D + 'static,
        caught_by: &'static [&'static str],
    ) -> Self {
        Self { defect_name, caught_by, defect: Box::new(move || Arc::new(defect())) }
    }
}

/// No defect at all: the positive control.
pub(crate) fn unbroken() -> Control {
    Control::new("no defect", Twist::default, &[])
}

/// The result of a case for a control.
pub(crate) enum Verdict {
    Passed,
    Skipped,
    Caught(String),
}

/// Runs a case with a paused clock, so that timeouts take no real time.
pub(crate) fn run(case: &Listed, control: &Control) -> Verdict {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let harness = Box::new(BrokenHarness::new((control.defect)()));
    quietly(|| match runtime.block_on(AssertUnwindSafe(case.run(harness)).catch_unwind()) {
        Ok(Outcome::Passed) => Verdict::Passed,
        Ok(Outcome::Skipped(_)) => Verdict::Skipped,
        Err(panic) => Verdict::Caught(match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("a panic").to_owned(),
        }),
    })
}

thread_local! { static QUIET: Cell<bool> = const { Cell::new(false) } }

/// Panics that are expected are not printed.
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = work();
    QUIET.set(false);
    result
}

/// Queues in memory that outlive the transport, like those of a durable one.
struct BrokenHarness {
    store: Store,
    defect: Arc<dyn Defect>,
}

impl BrokenHarness {
    fn new(defect: Arc<dyn Defect>) -> Self {
        let clock = Arc::new(ManualClock::default());
        Self { store: Store { memory: empty(&clock), clock }, defect }
    }

    fn broken(&self) -> Broken {
        Broken { store: self.store.clone(), defect: self.defect.clone() }
    }
}

fn empty(clock: &Arc<ManualClock>) -> MemoryTransport {
    let max_message_bytes = 256 * 1024;
    MemoryTransport::new(Options { clock: clock.clone(), max_message_bytes, ..Options::default() })
}

#[async_trait]
impl Harness for BrokenHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.broken())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.broken())
    }

    async fn elapse(&self, by: Duration) {
        self.store.clock.advance(by);
    }

    async fn restart(&mut self) {
        if self.defect.forgets() {
            self.store.memory = empty(&self.store.clock);
        }
    }
}

//! Runs SQLite and the model side by side.

use std::{
    num::NonZeroU32,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bezoar_core::{Clock, ManualClock};
use bezoar_memory::MemoryTransport;
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    flaw::Flaw,
    side::Side,
    step::{MAX_BODY_BYTES, Step},
};

/// SQLite and the model, with their shared state.
pub(crate) struct Pair {
    sqlite: Side,
    model: Side,
    clock: Arc<ManualClock>,
    sqlite_clock: Arc<ManualClock>,
    folder: TempDir,
    flaw: Flaw,
}

impl Pair {
    pub(crate) async fn start(flaw: Flaw) -> Self {
        let clock = Arc::new(ManualClock::default());
        let sqlite_clock = match flaw {
            Flaw::ClockAhead => Arc::new(ManualClock::new(clock.now() + Duration::from_millis(1))),
            _ => clock.clone(),
        };
        let folder = folder();
        let sqlite = open(folder.path(), sqlite_clock.clone());
        let options = bezoar_memory::Options {
            clock: clock.clone(),
            max_message_bytes: MAX_BODY_BYTES,
            watch: None,
        };
        let model = MemoryTransport::new(options);
        let sqlite = Side::open(Box::new(sqlite), flaw).await;
        let model = Side::open(Box::new(model), Flaw::None).await;
        Self { sqlite, model, clock, sqlite_clock, folder, flaw }
    }

    /// Runs the step on both sides and compares the results.
    pub(crate) async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Elapse(time) => self.elapse(*time),
            Step::Reopen => self.reopen().await,
            Step::ReceiveAndDrop { queue, max } => {
                self.receive_and_drop(step, *queue, *max).await?;
            }
            _ => {
                let (ours, expected) = (self.sqlite.act(step).await, self.model.act(step).await);
                prop_assert_eq!(ours, expected, "SQLite and the model answer {:?}", step);
            }
        }
        let (ours, expected) = (self.sqlite.look().await, self.model.look().await);
        prop_assert_eq!(ours, expected, "SQLite and the model after {:?}", step);
        Ok(())
    }

    fn elapse(&self, time: Duration) {
        self.clock.advance(time);
        if !Arc::ptr_eq(&self.clock, &self.sqlite_clock) {
            self.sqlite_clock.advance(time);
        }
    }

    /// Only the store is reopened: deliveries stay leased to their holders.
    async fn reopen(&mut self) {
        let store = Box::new(open(self.folder.path(), self.sqlite_clock.clone()));
        let reopened = Side::open(store, self.flaw).await;
        self.sqlite.store = reopened.store;
        self.sqlite.subscriptions = reopened.subscriptions;
        self.sqlite.keep_latest_copies();
        self.model.keep_latest_copies();
    }

    /// Starts a receive and drops it immediately. If the response was faster, it is a normal
    /// receive.
    async fn receive_and_drop(
        &mut self,
        step: &Step,
        queue: usize,
        max: NonZeroU32,
    ) -> Result<(), TestCaseError> {
        let answer = {
            let receive = pin!(self.sqlite.subscriptions[queue].receive(max, Duration::ZERO));
            receive.poll(&mut Context::from_waker(Waker::noop()))
        };
        if let Poll::Ready(answer) = answer {
            let ours = self.sqlite.keep(queue, answer);
            let expected = self.model.receive(queue, max).await;
            prop_assert_eq!(ours, expected, "SQLite and the model answer {:?}", step);
        }
        self.sqlite.catch_up().await;
        Ok(())
    }
}

/// In memory where possible: this test is not about the disk, and a few hundred stores would wait for
/// it.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn open(folder: &Path, clock: Arc<ManualClock>) -> SqliteTransport {
    let options = Options {
        max_message_bytes: MAX_BODY_BYTES,
        synchronous: Synchronous::Normal,
        clock,
        ..Options::new(folder.join("lab.db"))
    };
    SqliteTransport::open(options).unwrap()
}

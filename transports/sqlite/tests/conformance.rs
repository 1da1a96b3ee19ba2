//! The conformance suite for queues in SQLite.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::Harness;
use bezoar_core::{ManualClock, QueueAdmin, Transport};
use bezoar_sqlite::{Options, SqliteTransport};
use tempfile::TempDir;

struct SqliteHarness {
    transport: Option<SqliteTransport>,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl SqliteHarness {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut harness = Self { transport: None, clock: Arc::default(), folder };
        harness.open();
        harness
    }

    fn open(&mut self) {
        let options = Options {
            clock: self.clock.clone(),
            poll: Duration::from_millis(100),
            ..Options::new(self.folder.path().join("queues.db"))
        };
        self.transport = Some(SqliteTransport::open(options).unwrap());
    }
}

#[async_trait]
impl Harness for SqliteHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone().unwrap())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.transport.clone().unwrap())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn restart(&mut self) {
        self.transport = None;
        self.open();
    }
}

bezoar_conformance::suite!(SqliteHarness::new);

#[test]
fn the_readme_says_what_the_transport_can_do() {
    let folder = tempfile::tempdir().unwrap();
    let transport = SqliteTransport::open(Options::new(folder.path().join("queues.db"))).unwrap();
    bezoar_conformance::assert_documented(include_str!("../README.md"), &transport.capabilities());
}

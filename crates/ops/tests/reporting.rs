//! A transport that reports to a catalogue keeps the contract of the one that it wraps.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::Harness;
use bezoar_core::{ManualClock, QueueAdmin, Transport};
use bezoar_memory::{MemoryTransport, Options};
use bezoar_ops::Reporting;
use bezoar_sqlite::SqliteTransport;
use tempfile::TempDir;

struct ReportingHarness {
    inner: MemoryTransport,
    catalogue: SqliteTransport,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

impl ReportingHarness {
    async fn new() -> Self {
        let (clock, folder) = (Arc::new(ManualClock::default()), tempfile::tempdir().unwrap());
        let options =
            Options { clock: clock.clone(), max_message_bytes: 256 * 1024, ..Options::default() };
        let store = bezoar_sqlite::Options::new(folder.path().join("catalogue.db"));
        let catalogue = SqliteTransport::open(store).unwrap();
        Self { inner: MemoryTransport::new(options), catalogue, clock, _folder: folder }
    }
}

#[async_trait]
impl Harness for ReportingHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        let (inner, catalogue) = (Arc::new(self.inner.clone()), Arc::new(self.catalogue.clone()));
        Arc::new(Reporting::new(inner, catalogue).announcing())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.inner.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

bezoar_conformance::suite!(ReportingHarness::new);

//! The contract of catalogues, kept by SQLite.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::CatalogueHarness;
use bezoar_core::{Clock, ManualClock, QueueAdmin, Transport, catalogue::Catalogue};
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};
use jiff::Timestamp;
use tempfile::TempDir;

struct SqliteCatalogue {
    store: Option<SqliteTransport>,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl SqliteCatalogue {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut harness = Self { store: None, clock: Arc::default(), folder };
        harness.open(None);
        harness
    }

    fn open(&mut self, max_bytes: Option<u64>) {
        self.store = None;
        let options = Options {
            clock: self.clock.clone(),
            max_bytes,
            synchronous: Synchronous::Normal,
            ..Options::new(self.folder.path().join("catalogue.db"))
        };
        self.store = Some(SqliteTransport::open(options).unwrap());
    }

    fn store(&self) -> Arc<SqliteTransport> {
        Arc::new(self.store.clone().unwrap())
    }
}

#[async_trait]
impl CatalogueHarness for SqliteCatalogue {
    fn catalogue(&self) -> Arc<dyn Catalogue> {
        self.store()
    }

    fn transport(&self) -> Arc<dyn Transport> {
        self.store()
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        self.store()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn restart(&mut self) {
        self.open(None);
    }

    async fn restart_full(&mut self) {
        self.open(Some(1));
    }
}

bezoar_conformance::catalogue_suite!(SqliteCatalogue::new);

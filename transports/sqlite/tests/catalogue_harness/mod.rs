//! SQLite's catalogue in a folder of its own, for the suite here and for the controls in `crates/conformance`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::CatalogueHarness;
use bezoar_core::{Clock, ManualClock, QueueAdmin, Transport, catalogue::Catalogue};
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};
use jiff::Timestamp;
use tempfile::TempDir;

type Wrap = dyn Fn(Arc<SqliteTransport>) -> Arc<dyn Catalogue> + Send + Sync;

pub(crate) struct SqliteCatalogue {
    store: Option<SqliteTransport>,
    clock: Arc<ManualClock>,
    folder: TempDir,
    wrap: Box<Wrap>,
}

impl SqliteCatalogue {
    /// A fresh store, whose catalogue the cases see through `wrap`.
    pub(crate) fn seen_through(
        wrap: impl Fn(Arc<SqliteTransport>) -> Arc<dyn Catalogue> + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wrap = Box::new(wrap);
        let mut harness = Self { store: None, clock: Arc::default(), folder, wrap };
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
        (self.wrap)(self.store())
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

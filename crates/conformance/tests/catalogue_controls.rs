//! The list for catalogues catches what it should: catalogues with one defect each, around SQLite's.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

mod broken_catalogues {
    pub(crate) mod broken;
    pub(crate) mod defects;
    pub(crate) mod recognition;
}

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::{CatalogueCase, CatalogueHarness, catalogue_cases};
use bezoar_core::{Clock, ManualClock, QueueAdmin, Transport, catalogue::Catalogue};
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};
use broken_catalogues::{
    broken::{Broken, Defect},
    defects::{Control, controls},
};
use futures_util::FutureExt;
use jiff::Timestamp;
use tempfile::TempDir;

struct BrokenHarness {
    store: Option<SqliteTransport>,
    clock: Arc<ManualClock>,
    folder: TempDir,
    defect: Arc<Defect>,
}

impl BrokenHarness {
    fn new(defect: Arc<Defect>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut harness = Self { store: None, clock: Arc::default(), folder, defect };
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
impl CatalogueHarness for BrokenHarness {
    fn catalogue(&self) -> Arc<dyn Catalogue> {
        Arc::new(Broken { inner: self.store(), defect: self.defect.clone() })
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

/// Whether the case fails with this defect.
fn catches(case: &CatalogueCase, defect: &Arc<Defect>) -> bool {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let run = async { case.run(Box::new(BrokenHarness::new(defect.clone()))).await };
    runtime.unwrap().block_on(AssertUnwindSafe(run).catch_unwind()).is_err()
}

fn named(name: &str) -> CatalogueCase {
    let case = catalogue_cases().into_iter().find(|case| format!("{case:?}") == name);
    case.unwrap_or_else(|| panic!("there is no case {name}"))
}

#[test]
fn every_broken_catalogue_is_caught_by_the_cases_named_for_it() {
    let missed: Vec<String> = controls()
        .iter()
        .flat_map(|control: &Control| control.caught_by.iter().map(move |name| (control, *name)))
        .filter(|(control, name)| !catches(&named(name), &control.defect))
        .map(|(control, name)| {
            format!("a catalogue that {} was not caught by {name}", control.name)
        })
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn an_unbroken_catalogue_passes_every_case_that_a_control_names() {
    let sound = Arc::new(Defect::default());
    let mut names: Vec<_> =
        controls().iter().flat_map(|control| control.caught_by).copied().collect();
    names.sort_unstable();
    names.dedup();
    let failed: Vec<_> = names.into_iter().filter(|name| catches(&named(name), &sound)).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn there_are_enough_of_both() {
    assert!(catalogue_cases().len() >= 60, "{}", catalogue_cases().len());
    assert!(controls().len() >= 20, "{}", controls().len());
}

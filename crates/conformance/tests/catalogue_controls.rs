//! Negative controls of the suite for catalogues: SQLite's catalogue with one defect each.

#![expect(clippy::unwrap_used, reason = "test code")]

mod broken_catalogues {
    pub(crate) mod broken;
    pub(crate) mod defects;
    pub(crate) mod recognition;
}

#[path = "../../../transports/sqlite/tests/catalogue_harness/mod.rs"]
mod catalogue_harness;

use std::{panic::AssertUnwindSafe, sync::Arc};

use bezoar_conformance::{CatalogueCase, catalogue_cases};
use broken_catalogues::{
    broken::{Broken, Defect},
    defects::{Control, controls},
};
use catalogue_harness::SqliteCatalogue;
use futures_util::FutureExt;

fn broken(defect: &Arc<Defect>) -> SqliteCatalogue {
    let defect = defect.clone();
    SqliteCatalogue::seen_through(move |inner| Arc::new(Broken { inner, defect: defect.clone() }))
}

/// Whether the case fails with this defect.
fn catches(case: &CatalogueCase, defect: &Arc<Defect>) -> bool {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let run = async { case.run(Box::new(broken(defect))).await };
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

//! The conformance suite for SQLite's catalogue.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod catalogue_harness;

use catalogue_harness::SqliteCatalogue;

async fn sqlite() -> SqliteCatalogue {
    SqliteCatalogue::seen_through(|store| store)
}

bezoar_conformance::catalogue_suite!(sqlite);

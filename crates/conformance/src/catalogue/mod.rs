//! The contract of a store with a catalogue of dead letters, as tests.
//!
//! A store provides a [`CatalogueHarness`] and one line of code, `catalogue_suite!`. As with transports, each case
//! becomes a test named after the promise that it checks.

mod cases;
mod harness;
mod list;
mod store;

pub use harness::CatalogueHarness;
pub use list::{CatalogueCase, catalogue_cases, check_catalogue};

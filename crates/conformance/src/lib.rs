//! The contract as tests: one list of cases that every transport must pass.
//!
//! A transport provides a [`Harness`] and one line of code. Each case becomes a test named after the
//! promise that it checks. Cases for promises that the transport's capabilities do not make are skipped,
//! with a line on stderr. [`Faulty`] is a transport that fails on purpose, for testing code that uses a
//! transport.
//!
//! | where | what |
//! | --- | --- |
//! | `list.rs` | the list of all cases, and the capability that each needs |
//! | `cases/` | the cases, one file per subject |
//! | `case.rs`, `worker.rs`, `samples.rs` | what the cases are written with |
//! | `harness.rs`, `run.rs` | what a transport provides, and how a case is run with it |
//! | `catalogue/` | the cases for stores with a catalogue of dead letters: `catalogue_suite!` |
//! | `faulty.rs` | the wrapper that injects faults |
//! | `intercept.rs` | a wrapper for tests that change one operation |
//!
//! It does not test handlers or policies, which belong to the worker.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use bezoar_conformance::Harness;
//! # use bezoar_core::{ManualClock, QueueAdmin, Transport};
//! # use bezoar_memory::{MemoryTransport, Options};
//! struct MemoryHarness { transport: MemoryTransport, clock: Arc<ManualClock> }
//!
//! impl MemoryHarness {
//!     async fn new() -> Self {
//!         let clock = Arc::new(ManualClock::default());
//!         let options = Options { clock: clock.clone(), ..Options::default() };
//!         Self { transport: MemoryTransport::new(options), clock }
//!     }
//! }
//!
//! #[async_trait::async_trait]
//! impl Harness for MemoryHarness {
//!     fn transport(&self) -> Arc<dyn Transport> { Arc::new(self.transport.clone()) }
//!     fn admin(&self) -> Arc<dyn QueueAdmin> { Arc::new(self.transport.clone()) }
//!     async fn elapse(&self, by: Duration) { self.clock.advance(by) }
//! }
//!
//! bezoar_conformance::suite!(MemoryHarness::new);
//! # fn main() {}
//! ```

mod case;
mod cases;
mod catalogue;
mod faulty;
mod harness;
mod intercept;
mod list;
mod needs;
mod pace;
mod readme;
mod run;
mod samples;
mod worker;

pub use catalogue::{CatalogueCase, CatalogueHarness, catalogue_cases, check_catalogue};
pub use faulty::{Fault, Faulty, Operation, Plan, Step, seeded};
pub use harness::Harness;
pub use intercept::{Intercept, Intercepted};
pub use list::{Listed, all};
pub use readme::assert_documented;
pub use run::{Outcome, check};

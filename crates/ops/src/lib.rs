//! The operator's side, over the contract of [`bezoar_core::catalogue`]: what goes on by itself once somebody
//! has asked for it, and the forms in which dead letters travel.
//!
//! | module | what |
//! | --- | --- |
//! | `conductor` | carries replays and discards on, at their rate, from where they were |
//! | `edit` | a new version of a message: another body, other headers, a JSON patch |
//! | `export` | dead letters as lines of JSON, and back |
//! | `intake` | takes a broker's dead letters in, and gives them back when they are replayed |
//! | `reporting` | tells a catalogue what a broker cannot: what became of messages, and why they are rejected |
//! | `retention` | removes what is too old, after a warning |
//!
//! What an operator does at once, looking, planning, marking, is a method of
//! [`Catalogue`](bezoar_core::catalogue::Catalogue).

mod conductor;
mod edit;
mod export;
mod intake;
mod pace;
mod reporting;
mod retention;

pub use conductor::Conductor;
pub use edit::{Edit, EditError, Edited};
pub use export::{ExportError, ImportError, read_line, write_line};
pub use intake::{Intake, Outcomes};
pub use reporting::Reporting;
pub use retention::{Retention, Warned};

//! Tools for operators, based on the contract of [`bezoar_core::catalogue`]: operations that run in the background, and
//! the formats in which dead letters are edited and exchanged.
//!
//! | module | purpose |
//! | --- | --- |
//! | `conductor` | runs replays and discards at their rate, and resumes them after a restart |
//! | `edit` | new versions of a message: another body, other headers, a JSON patch |
//! | `export` | dead letters as JSON lines, and back |
//! | `intake` | takes in a broker's dead letters, and publishes them when they are replayed |
//! | `reporting` | reports outcomes and reasons that a broker cannot store to a catalogue |
//! | `retention` | expires old dead letters, after a warning |
//!
//! Immediate actions of an operator, such as listing, planning and marking, are methods of
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

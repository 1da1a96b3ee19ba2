//! The catalogue: every dead letter in one place, grouped by cause, with the actions of operators.
//!
//! One trait for each audience. Every promise is a case in `crates/conformance`.
//!
//! | trait | who calls it |
//! | --- | --- |
//! | [`DeadLetterCatalogue`] | people who look at dead letters, edit, import and expire them |
//! | [`Operations`] | people who plan replays and discards, and the loop that carries them out |
//! | [`BrokerIntake`] | the loop that moves dead letters between a broker and the store |
//! | [`AuditLog`] | people who need to know who did what |
//! | [`Settings`] | the gateway, for small values that must survive a restart |
//!
//! A method that takes an [`AuditedAction`] writes it to the audit log in the same transaction as its changes: an
//! action that cannot be logged does not happen.
//!
//! | file | what it decides, for every store |
//! | --- | --- |
//! | `fingerprint.rs`, `cause.rs`, `hours.rs` | which dead letters are one cause, and what is known about a cause |
//! | `filter.rs`, `summary.rs` | which dead letters match, and what a list shows |
//! | `operation.rs` | what a replay or discard may do next |
//! | `rejection.rs` | why messages were rejected, where their dead letters stay on the broker |
//! | `versions.rs` | who may edit, and who may approve |
//! | `audit.rs` | entries that are chained by their hashes |
//! | `limits.rs` | limits, and checks of texts and imports |

mod audit;
mod audit_log;
mod broker_intake;
mod cause;
mod dead_letters;
mod error;
mod filter;
mod fingerprint;
mod hours;
mod limits;
mod operation;
mod operations;
mod rejection;
mod settings;
mod summary;
mod versions;

pub use audit::{AuditBreak, AuditEntry, AuditHash, AuditHead, AuditedAction, Verb};
pub use audit_log::AuditLog;
pub use broker_intake::BrokerIntake;
pub use cause::{Cause, CauseState};
pub use dead_letters::DeadLetterCatalogue;
pub use error::CatalogueError;
pub use filter::{Filter, ListPosition, ListRequest, Selection};
pub use fingerprint::{CauseId, FINGERPRINT_VERSION, Fingerprint, StoreKey, last_failure};
pub use hours::HourCounts;
pub use limits::{
    CHAIN_LIMIT, CHUNK_LIMIT, IMPORT_LIMIT, IMPORT_LIMIT_BYTES, PAGE_LIMIT, SELECTION_LIMIT,
    TEXT_LIMIT_BYTES, check_import, check_text,
};
pub use operation::{
    Advance, HeldLetters, ItemState, NextStep, Operation, OperationCommand, OperationId,
    OperationItem, OperationKind, OperationPlan, OperationRequest, OperationState, ReplayIds,
};
pub use operations::Operations;
pub use rejection::{Rejection, RejectionFilter, RejectionPosition};
pub use settings::Settings;
pub use summary::{Count, DeadLetterRecord, DeadLetterState, DeadLetterSummary};

/// All traits of a catalogue together. Implemented for every type that implements them.
pub trait Catalogue: DeadLetterCatalogue + Operations + BrokerIntake + AuditLog + Settings {}

impl<T: DeadLetterCatalogue + Operations + BrokerIntake + AuditLog + Settings> Catalogue for T {}

//! The requests and answers of the HTTP API, each defined once: the gateway writes them, the command line and other
//! Rust clients read them, and `/openapi.json` is generated from them.
//!
//! Bodies, header values and error texts appear only in requests and answers that exist to carry them, where
//! [`Hidden`] keeps them out of logs. Every member of an answer is present; an unknown value is null. Reading is lenient,
//! so that versions may differ: a missing member has its default, and a state that is not known yet is `Unknown`.

mod audit;
mod cause;
mod dead_letter;
mod filter;
mod health;
mod hidden;
mod identity;
mod message;
mod message_place;
mod names;
mod operation;
mod page;
mod poison_retry;
mod problem;
mod queue;
mod queued_message;
mod reading;
mod rejection;
mod status;
mod transfer;

pub use audit::{AuditPage, AuditRecord, AuditedOutcome, RecordedHead};
pub use cause::{Cause, CauseMark, CauseState, MarkCauseRequest, Note};
pub use dead_letter::{
    DeadLetterDetails, DeadLetterPage, DeadLetterState, DeadLetterSummary, EditRequest, FailedTry,
    HeaderSize, LastError, MatchCount, Origin, ReasonRequest, RevealPart, RevealRequest, Revealed,
    UncountedFailures,
};
pub use filter::DeadLetterFilter;
pub use health::{Health, HealthState};
pub use hidden::Hidden;
pub use identity::{Identity, Permission, Role};
pub use message::{AcceptedMessage, BatchAnswer, BatchItem, BatchResult, ItemProblem};
pub use message_place::{MessagePlaces, MessageQueue, MessageState};
pub use names::FailureKind;
pub use operation::{
    DiscardRequest, Holder, ItemState, Operation, OperationCommand, OperationCommandRequest,
    OperationItem, OperationKind, OperationState, QueueShare, ReplayRequest,
};
pub use page::Page;
pub use poison_retry::{PoisonRetry, PoisonRun, PoisonRunCounts, PoisonRunReport};
pub use problem::Problem;
pub use queue::{
    BreakerState, BrokerDiscardRequest, BrokerDiscarded, BrokerReplayed, QueueStatus, RoutePause,
    RouteStatus,
};
pub use queued_message::QueuedMessage;
pub use rejection::Rejection;
pub use status::{GatewayStatus, StatusReason, Verdict};
pub use transfer::{ExportRequest, Imported};

//! Errors of a catalogue.

use super::{CauseId, OperationId};
use crate::{DeadLetterId, Invalid, TransportError};

/// Why an action was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// There is no such dead letter.
    #[error("unknown dead letter {0}; it may have been replayed or discarded")]
    NoDeadLetter(DeadLetterId),
    /// There is no such cause.
    #[error("unknown cause {0}")]
    NoCause(CauseId),
    /// There is no such operation.
    #[error("unknown replay or discard {0}")]
    NoOperation(OperationId),
    /// An operation holds the dead letter.
    #[error("dead letter {id} is part of operation {operation}; wait for it, or cancel it")]
    Taken {
        /// The dead letter.
        id: DeadLetterId,
        /// The operation that holds it.
        operation: OperationId,
    },
    /// Its state does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The selection has another size than expected.
    #[error("found {found} dead letters, expected {expected}; check the selection again")]
    Unexpected {
        /// How many were expected.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// A value is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] TransportError),
}

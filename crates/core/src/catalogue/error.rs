//! Why a catalogue refuses something.

use super::{CauseId, OperationId};
use crate::{DeadLetterId, Invalid, TransportError};

/// Why something was not done. Nothing of it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// There is no such dead letter.
    #[error("there is no dead letter {0}; it may have been replayed or discarded")]
    NoDeadLetter(DeadLetterId),
    /// There is no such cause.
    #[error("there is no cause {0}")]
    NoCause(CauseId),
    /// There is no such operation.
    #[error("there is no replay or discard {0}")]
    NoOperation(OperationId),
    /// An operation has the dead letter.
    #[error("dead letter {id} is part of operation {operation}; wait for it, or cancel it")]
    Taken {
        /// The dead letter.
        id: DeadLetterId,
        /// The operation that has it.
        operation: OperationId,
    },
    /// Its state does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// The selection has another size than expected.
    #[error("{found} dead letters would take part, not {expected}; look again before you go on")]
    Unexpected {
        /// How many were expected.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// A value was refused before anything was tried.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] TransportError),
}

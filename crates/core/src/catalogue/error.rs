//! What can be wrong with what an operator wants.

use super::{CauseId, OperationId};
use crate::{DeadLetterId, TransportError};

/// Why something was not done. Nothing of it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// It is not there.
    #[error("there is no dead letter {0}; it may have been replayed or discarded")]
    NoDeadLetter(DeadLetterId),
    /// It is not there.
    #[error("there is no cause {0}")]
    NoCause(CauseId),
    /// It is not there.
    #[error("there is no replay or discard {0}")]
    NoOperation(OperationId),
    /// Somebody else acts on it.
    #[error("dead letter {id} is part of operation {operation}; wait for it, or cancel it")]
    Taken {
        /// Which.
        id: DeadLetterId,
        /// By whom.
        operation: OperationId,
    },
    /// It cannot be done in the state it is in.
    #[error("{0}")]
    Conflict(String),
    /// The selection is another than was expected.
    #[error("{found} would take part, not {expected}; look again before you go on")]
    Unexpected {
        /// So many were expected.
        expected: u64,
        /// So many there are.
        found: u64,
    },
    /// The store could not do it.
    #[error(transparent)]
    Store(#[from] TransportError),
}

//! Errors of a catalogue.

use super::{CauseId, ItemState, OperationId};
use crate::{DeadLetterId, Invalid, TransportError};

/// Why an action was not carried out. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// There is no such dead letter.
    #[error("unknown dead letter {0}; it may have been replayed or discarded")]
    NoDeadLetter(DeadLetterId),
    /// The dead letter was replayed.
    #[error("dead letter {id} was replayed by {operation} and {}", became(.state))]
    Replayed {
        /// The id of the former dead letter.
        id: DeadLetterId,
        /// The operation that replayed it.
        operation: OperationId,
        /// The outcome of its message.
        state: ItemState,
    },
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
    /// Other operations hold some of the selected dead letters.
    #[error(
        "{} of the selected dead letters are held by other operations ({}); resume or cancel those, or leave their dead letters out",
        held.iter().map(|(_, count)| count).sum::<u64>(),
        holders(held)
    )]
    Held {
        /// The operations, and how many dead letters each holds.
        held: Vec<(OperationId, u64)>,
    },
    /// Another session of the broker has taken in the letter meanwhile.
    #[error("dead letter {0} was taken in by another session meanwhile; it stays on the broker")]
    TakenOver(DeadLetterId),
    /// The state of the object does not allow the action.
    #[error("{0}")]
    Conflict(String),
    /// The selection does not have the expected size.
    #[error("found {found} dead letters, expected {expected}; check the selection again")]
    Unexpected {
        /// The expected number of dead letters.
        expected: u64,
        /// The number of dead letters found.
        found: u64,
    },
    /// A value is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] TransportError),
}

fn became(state: &ItemState) -> String {
    match state {
        ItemState::Failed { again, .. } => format!("failed again as {again}"),
        ItemState::Completed => "completed".to_owned(),
        _ => "is in flight".to_owned(),
    }
}

fn holders(held: &[(OperationId, u64)]) -> String {
    let words: Vec<_> = held.iter().map(|(id, count)| format!("operation {id}: {count}")).collect();
    words.join(", ")
}

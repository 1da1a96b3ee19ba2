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
    /// The dead letter was discarded.
    #[error("dead letter {id} was discarded by {operation}")]
    Discarded {
        /// The id of the former dead letter.
        id: DeadLetterId,
        /// The operation that discarded it.
        operation: OperationId,
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
    #[error("{}; resume or cancel what holds them, or skip held dead letters", holders(held))]
    Held {
        /// The operations, and how many dead letters each holds.
        held: Vec<(OperationId, u64)>,
    },
    /// Another session of the broker has taken in the letter meanwhile.
    #[error("dead letter {0} was taken in by another session meanwhile; it stays on the broker")]
    TakenOver(DeadLetterId),
    /// Another process that shares the store has become the one that may do this.
    #[error("another gateway leads by now; nothing was changed")]
    NotLeading,
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
    /// The same request has planned an operation already.
    #[error("the request with this idempotency key has planned operation {0}")]
    Repeated(OperationId),
    /// The request with this key is still being carried out.
    #[error("the request with this idempotency key is still in progress; repeat it later")]
    InProgress,
    /// The key belongs to a different request.
    #[error("the idempotency key belongs to a different request; use a new key")]
    KeyReused,
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

/// `1 selected dead letter is held by op_209aaw0b`
fn holders(held: &[(OperationId, u64)]) -> String {
    let total: u64 = held.iter().map(|(_, count)| count).sum();
    let are = if total == 1 { "dead letter is" } else { "dead letters are" };
    let by: Vec<_> = match held {
        [(id, _)] => vec![id.to_string()],
        _ => held.iter().map(|(id, count)| format!("{id} ({count})")).collect(),
    };
    format!("{total} selected {are} held by {}", by.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_operations_that_hold_dead_letters() {
        let [one, two] = [1, 2].map(OperationId::from_number);
        for (held, expected) in [
            (vec![(one, 1)], format!("1 selected dead letter is held by {one};")),
            (vec![(one, 3)], format!("3 selected dead letters are held by {one};")),
            (
                vec![(one, 1), (two, 2)],
                format!("3 selected dead letters are held by {one} (1), {two} (2);"),
            ),
        ] {
            let text = CatalogueError::Held { held }.to_string();
            assert!(text.starts_with(&expected), "{text:?} does not start with {expected:?}");
        }
    }
}

//! Recognizes repetitions of a request by the key that its actor chose.
//!
//! The key is part of the operation's row, so that both are stored in one transaction, and is kept for as long as the
//! operation. The lookup before an insert needs no unique index: both are in one transaction, and only one transaction
//! writes at a time.

use bezoar_core::catalogue::{CatalogueError, Operation, OperationId, OperationRequest};
use rusqlite::{Connection, OptionalExtension, params};

use super::{operation as operation_of, plan::PATIENCE_MILLIS};
use crate::catalogue::Found;

/// The operation that was planned for a request of an actor.
pub(crate) fn operation(
    connection: &Connection,
    (actor, request): (&str, &OperationRequest),
    now: i64,
) -> Found<Option<Operation>> {
    match find(connection, (actor, request), now)? {
        Ok(Some(id)) => Ok(operation_of(connection, id)?.map(Some)),
        Ok(None) => Ok(Ok(None)),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Its id. A selection that nobody goes on freezing counts as not planned.
pub(super) fn find(
    connection: &Connection,
    (actor, request): (&str, &OperationRequest),
    now: i64,
) -> Found<Option<OperationId>> {
    let found = connection
        .prepare_cached(
            "SELECT id, request_digest, state = 'freezing' FROM bezoar_operations
             WHERE who = ?1 AND request_key = ?2 AND state <> 'void'
               AND NOT (state = 'freezing' AND touched_at < ?3)
             ORDER BY id DESC LIMIT 1",
        )?
        .query_row(params![actor, request.key.as_str(), now - PATIENCE_MILLIS], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?))
        })
        .optional()?;
    Ok(match found {
        None => Ok(None),
        Some((_, digest, _)) if digest != request.digest => Err(CatalogueError::KeyReused),
        Some((_, _, true)) => Err(CatalogueError::InProgress),
        Some((id, _, false)) => Ok(Some(OperationId::from_number(id))),
    })
}

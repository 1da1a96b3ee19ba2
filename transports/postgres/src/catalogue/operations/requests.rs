//! Recognizes repetitions of a request by the key that its actor chose.
//!
//! The key is part of the operation's row, so that both are stored in one transaction, and is kept for as long as the
//! operation. Of several gateways that get the same request at once, an advisory lock lets one look and insert.

use bezoar_core::catalogue::{CatalogueError, Operation, OperationId, OperationRequest};
use sqlx::Row;

use super::{operation as operation_of, plan::PATIENCE_MILLIS};
use crate::catalogue::{Found, session::Session};

/// The operation that was planned for a request of an actor.
pub(crate) async fn operation(
    session: &mut Session<'_>,
    actor: &str,
    request: &OperationRequest,
) -> Found<Option<Operation>> {
    match find(session, actor, request).await? {
        Ok(Some(id)) => Ok(operation_of(session, id).await?.map(Some)),
        Ok(None) => Ok(Ok(None)),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Refuses a request that was made before. Others with the same key wait until the transaction ends.
pub(super) async fn check_new(
    session: &mut Session<'_>,
    actor: &str,
    request: &OperationRequest,
) -> Found<()> {
    session.lock(format!("request {} {actor}", request.key.as_str())).await?;
    Ok(match find(session, actor, request).await? {
        Ok(None) => Ok(()),
        Ok(Some(id)) => Err(CatalogueError::Repeated(id)),
        Err(refused) => Err(refused),
    })
}

/// Its id. A selection that nobody goes on freezing counts as not planned.
async fn find(
    session: &mut Session<'_>,
    actor: &str,
    request: &OperationRequest,
) -> Found<Option<OperationId>> {
    let select = session
        .query(
            "SELECT id, request_digest, state = 'freezing' FROM {schema}.operations
             WHERE who = $1 AND request_key = $2 AND state <> 'void'
               AND NOT (state = 'freezing' AND touched_at < $3)
             ORDER BY id DESC LIMIT 1",
        )
        .bind(actor.to_owned())
        .bind(request.key.as_str().to_owned())
        .bind(session.now_millis() - PATIENCE_MILLIS);
    let Some(row) = session.optional(select).await? else { return Ok(Ok(None)) };
    let (digest, is_freezing): (Vec<u8>, bool) = (row.try_get(1)?, row.try_get(2)?);
    Ok(match is_freezing {
        _ if digest != request.digest => Err(CatalogueError::KeyReused),
        true => Err(CatalogueError::InProgress),
        false => Ok(Some(OperationId::from_number(row.try_get(0)?))),
    })
}

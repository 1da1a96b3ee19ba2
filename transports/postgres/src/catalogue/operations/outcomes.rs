//! Counts the outcomes of replayed messages.
//!
//! A replayed message is identified by its row number (`seq`) while it is in this store's queues, and by its operation
//! and message id (`away`) while a broker has it. Its first outcome, completed or failed again, changes the item's state
//! at once and is counted once, because only an item in flight matches. Counters of operations would be rows that all
//! workers wait for, so outcomes are appended, and added to their operation by whoever has locked it.

use bezoar_core::{
    MessageId,
    catalogue::{CauseId, OperationId},
};

use crate::catalogue::session::Session;

/// One message of an operation that a broker has. Ids from other systems may repeat, and the same id in another queue is
/// a different message. $1 operation, $2 message id, $3 queue.
const ONE_AWAY: &str = "WHERE i.operation = $1 AND i.place = (
    SELECT place FROM {schema}.items
    WHERE operation = $1 AND away = $2 AND queue = $3 AND state = 'in flight' LIMIT 1 FOR UPDATE)";

/// A message that was replayed to a broker completed there.
pub(crate) async fn completed_away(
    session: &mut Session<'_>,
    (operation, queue): (OperationId, i32),
    message: &MessageId,
) -> sqlx::Result<()> {
    let sql = format!(
        "WITH done AS (
             UPDATE {{schema}}.items AS i SET state = 'completed', away = NULL {ONE_AWAY} RETURNING i.operation
         )
         INSERT INTO {{schema}}.outcomes (operation, completed, failed, at) SELECT operation, 1, 0, $4 FROM done"
    );
    let update = session
        .query(&sql)
        .bind(operation.number())
        .bind(message.as_str().to_owned())
        .bind(queue)
        .bind(session.now_millis());
    session.execute(update).await.map(drop)
}

/// A message that was replayed to a broker was dead-lettered again. The version of an edited message stays its version.
pub(crate) async fn came_back(
    session: &mut Session<'_>,
    (operation, queue, message): (OperationId, i32, &MessageId),
    (dead, cause): (i64, &CauseId),
) -> sqlx::Result<()> {
    let sql = format!(
        "WITH failed AS (
             UPDATE {{schema}}.items AS i SET state = 'failed again', away = NULL, again = $5, cause = $6
             {ONE_AWAY} RETURNING i.operation, i.dead
         ), linked AS (
             UPDATE {{schema}}.dead AS d SET edited_as = $5 FROM failed WHERE d.edited_as = failed.dead
             RETURNING d.id AS original
         ), version AS (
             UPDATE {{schema}}.dead AS d SET edited_from = linked.original FROM linked WHERE d.id = $5
         )
         INSERT INTO {{schema}}.outcomes (operation, completed, failed, at) SELECT operation, 0, 1, $4 FROM failed"
    );
    let update = session
        .query(&sql)
        .bind(operation.number())
        .bind(message.as_str().to_owned())
        .bind(queue)
        .bind(session.now_millis())
        .bind(dead)
        .bind(cause.as_str().to_owned());
    session.execute(update).await.map(drop)
}

/// Adds outcomes to their operation, which this transaction has locked.
pub(crate) async fn add_up(session: &mut Session<'_>, operation: OperationId) -> sqlx::Result<()> {
    let add = session
        .query(
            "WITH taken AS MATERIALIZED (
                 DELETE FROM {schema}.outcomes WHERE operation = $1 RETURNING completed, failed
             )
             UPDATE {schema}.operations
             SET completed = completed + (SELECT coalesce(sum(completed), 0) FROM taken),
                 failed = failed + (SELECT coalesce(sum(failed), 0) FROM taken)
             WHERE id = $1",
        )
        .bind(operation.number());
    session.execute(add).await.map(drop)
}

//! Counts the outcomes of replayed messages.
//!
//! A replayed message is identified by the row number (`seq`) of its item while it is in this store's queues, and
//! by its operation and message id (`away`) while a broker has it. Its first outcome, completed or failed again,
//! changes the item's state at once and is counted once, because only an item in flight matches. The operation's
//! own counters are collected here and written once per transaction, because thousands of outcomes may share one.

use std::collections::HashMap;

use bezoar_core::{
    MessageId,
    catalogue::{CauseId, OperationId},
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalogue::{dead_letters::edit, operations};

/// One message of an operation that a broker has. Ids from other systems may repeat, and the same id in another queue
/// is a different message.
const ONE_AWAY: &str = "WHERE operation = ?1 AND place =
    (SELECT place FROM bezoar_items
     WHERE operation = ?1 AND away = ?2 AND queue = ?3 AND state = 'in flight' LIMIT 1)";

/// What a transaction adds to the outcomes of replays. Empty between transactions.
#[derive(Debug, Default)]
pub(crate) struct ReplayCounts {
    /// How many completed and how many failed again, per operation.
    outcomes: HashMap<i64, (i64, i64)>,
}

impl ReplayCounts {
    /// Clears the collected counts, after they were written or the transaction was rolled back.
    pub(crate) fn clear(&mut self) {
        self.outcomes.clear();
    }

    /// A message of this store completed. If it was on its way to a broker, it has only arrived
    /// there.
    pub(crate) fn completed(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        let operation = connection
            .prepare_cached(
                "UPDATE bezoar_items SET state = 'completed'
                 WHERE seq = ?1 AND state = 'in flight' AND away IS NULL RETURNING operation",
            )?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        if let Some(operation) = operation {
            self.outcomes.entry(operation).or_default().0 += 1;
        }
        Ok(())
    }

    /// A message that was replayed to a broker completed there.
    pub(crate) fn completed_away(
        &mut self,
        connection: &Connection,
        (operation, queue): (OperationId, i64),
        message: &MessageId,
    ) -> rusqlite::Result<()> {
        let done = connection
            .prepare_cached(&format!(
                "UPDATE bezoar_items SET state = 'completed', away = NULL {ONE_AWAY}"
            ))?
            .execute(params![operation.number(), message.as_str(), queue])?;
        self.outcomes.entry(operation.number()).or_default().0 += done as i64;
        Ok(())
    }

    /// A message that was replayed to a broker was dead-lettered again.
    pub(crate) fn came_back(
        &mut self,
        connection: &Connection,
        (operation, queue, message): (OperationId, i64, &MessageId),
        (dead, cause): (i64, &CauseId),
    ) -> rusqlite::Result<()> {
        let before = connection
            .prepare_cached(&format!(
                "UPDATE bezoar_items SET state = 'failed again', away = NULL, again = ?4, cause = ?5
                 {ONE_AWAY} RETURNING dead"
            ))?
            .query_row(
                params![operation.number(), message.as_str(), queue, dead, cause.as_str()],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(before) = before {
            self.outcomes.entry(operation.number()).or_default().1 += 1;
            edit::keep_version_link(connection, before, dead)?;
        }
        Ok(())
    }

    /// A replayed message of this store was dead-lettered again.
    pub(crate) fn failed_again(
        &mut self,
        connection: &Connection,
        seq: i64,
        dead: i64,
        cause: &CauseId,
    ) -> rusqlite::Result<()> {
        let item = connection
            .prepare_cached(
                "UPDATE bezoar_items SET state = 'failed again', away = NULL, again = ?2, cause = ?3
                 WHERE seq = ?1 AND state = 'in flight' RETURNING operation, dead",
            )?
            .query_row(params![seq, dead, cause.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((operation, before)) = item {
            self.outcomes.entry(operation).or_default().1 += 1;
            edit::keep_version_link(connection, before, dead)?;
        }
        Ok(())
    }

    /// Writes and clears the collected counts.
    pub(crate) fn write(&mut self, connection: &Connection, now: i64) -> rusqlite::Result<()> {
        for (operation, (completed, failed)) in self.outcomes.drain() {
            connection
                .prepare_cached(
                    "UPDATE bezoar_operations
                     SET completed = completed + ?2, failed = failed + ?3 WHERE id = ?1",
                )?
                .execute([operation, completed, failed])?;
            operations::end_if_done(connection, operation, now)?;
        }
        Ok(())
    }
}

/// The replay that sent a message, while the message is in one of this store's queues.
pub(crate) fn replay_of(
    connection: &Connection,
    seq: i64,
) -> rusqlite::Result<Option<OperationId>> {
    connection
        .prepare_cached(
            "SELECT operation FROM bezoar_items WHERE seq = ?1 AND state = 'in flight'",
        )?
        .query_row([seq], |row| row.get(0).map(OperationId::from_number))
        .optional()
}

//! Ordering keys: only one message of a key can be claimed at a time.
//!
//! The first live message of a key is in `bezoar_waiting` like any other, and its key is in `bezoar_keys`. Later
//! ones wait in `bezoar_blocked`, so that a claim never has to skip them. Completing or dead-lettering the first
//! moves the next one to `bezoar_waiting`, in the same transaction; a retry or an expired lease moves nothing.
//! Messages without a key use neither table.

use bezoar_core::{OrderingKey, QueueName};
use rusqlite::{Connection, OptionalExtension, params};

use crate::session::Session;

/// The columns of a waiting message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingRow {
    pub(crate) visible_at: i64,
    pub(crate) seq: i64,
    pub(crate) acquired: i64,
    pub(crate) failed: i64,
    pub(crate) released: i64,
    pub(crate) replayed: i64,
    pub(crate) history: i64,
}

impl Session {
    /// Makes a message wait behind an earlier one of its key. Returns `false` if there is none: then this
    /// message is the first and must be inserted as one that can be claimed.
    pub(crate) fn block(
        &mut self,
        connection: &Connection,
        queue: i64,
        key: Option<&str>,
        row: &WaitingRow,
    ) -> rusqlite::Result<bool> {
        let Some(key) = key else { return Ok(false) };
        let first = connection
            .prepare_cached("INSERT INTO bezoar_keys VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![queue, key])?;
        if first == 1 {
            return Ok(false);
        }
        connection
            .prepare_cached(
                "INSERT INTO bezoar_blocked
                 SELECT ?1, ?2, coalesce(max(place), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9
                 FROM bezoar_blocked WHERE queue = ?1 AND key = ?2",
            )?
            .execute(params![
                queue,
                key,
                row.visible_at,
                row.seq,
                row.acquired,
                row.failed,
                row.released,
                row.replayed,
                row.history,
            ])?;
        count_blocked(connection, queue, 1)?;
        Ok(true)
    }

    /// Puts a replayed message at the end of its key or, if the key has no other, where it can be claimed.
    /// Returns whether it can be claimed.
    pub(crate) fn rejoin(
        &mut self,
        connection: &Connection,
        queue: i64,
        seq: i64,
        (replayed, history): (i64, i64),
    ) -> rusqlite::Result<bool> {
        let key: Option<String> = connection
            .prepare_cached("SELECT ordering_key FROM bezoar_messages WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?
            .flatten();
        let visible_at = self.now_millis();
        let (acquired, failed, released) = (0, 0, 0);
        let row = WaitingRow { visible_at, seq, acquired, failed, released, replayed, history };
        if self.block(connection, queue, key.as_deref(), &row)? {
            return Ok(false);
        }
        insert(connection, queue, &row)?;
        Ok(true)
    }

    /// Lets the next message of a key be claimed, after the previous one was completed or
    /// dead-lettered.
    pub(crate) fn unblock_next(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        key: Option<&OrderingKey>,
    ) -> rusqlite::Result<()> {
        let Some(key) = key else { return Ok(()) };
        let next = connection
            .prepare_cached(
                "DELETE FROM bezoar_blocked WHERE queue = ?1 AND key = ?2 AND place =
                     (SELECT min(place) FROM bezoar_blocked WHERE queue = ?1 AND key = ?2)
                 RETURNING visible_at, seq, acquired, failed, released, replayed, history",
            )?
            .query_row(params![queue, key.as_str()], waiting_row)
            .optional()?;
        let Some(mut next) = next else {
            connection
                .prepare_cached("DELETE FROM bezoar_keys WHERE queue = ?1 AND key = ?2")?
                .execute(params![queue, key.as_str()])?;
            return Ok(());
        };
        // It became ready only now, whatever its own delay was.
        next.visible_at = next.visible_at.max(self.now_millis());
        insert(connection, queue, &next)?;
        count_blocked(connection, queue, -1)?;
        self.count(queue, 1, 0);
        self.wake(name);
        Ok(())
    }
}

fn waiting_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<WaitingRow> {
    Ok(WaitingRow {
        visible_at: row.get(0)?,
        seq: row.get(1)?,
        acquired: row.get(2)?,
        failed: row.get(3)?,
        released: row.get(4)?,
        replayed: row.get(5)?,
        history: row.get(6)?,
    })
}

fn insert(connection: &Connection, queue: i64, row: &WaitingRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO bezoar_waiting
             (queue, visible_at, seq, acquired, failed, released, replayed, history)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute([
            queue,
            row.visible_at,
            row.seq,
            row.acquired,
            row.failed,
            row.released,
            row.replayed,
            row.history,
        ])?;
    Ok(())
}

fn count_blocked(connection: &Connection, queue: i64, change: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE bezoar_queues SET blocked = blocked + ?2 WHERE id = ?1")?
        .execute([queue, change])?;
    Ok(())
}

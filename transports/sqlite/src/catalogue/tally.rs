//! What a transaction adds to the counters of causes and operations: written once for each, not once per message.

use std::collections::HashMap;

use bezoar_core::{
    MessageId,
    catalogue::{CauseId, FINGERPRINT_VERSION, Fingerprint, OperationId, StoreKey},
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::catalogue::{edit, operations};

/// One message of an operation that a broker has. Ids of foreign messages may repeat.
const ONE_AWAY: &str = "WHERE operation = ?1 AND place =
    (SELECT place FROM bezoar_items WHERE operation = ?1 AND away = ?2 AND state = 'in flight' LIMIT 1)";

const HOUR_MILLIS: i64 = 60 * 60 * 1_000;

/// Which hour since 1970 a time is in.
pub(super) fn hour(millis: i64) -> i64 {
    millis.div_euclid(HOUR_MILLIS)
}

/// See the file's own line. Empty between transactions, but for the key.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    key: Option<StoreKey>,
    /// Causes that were looked up. Not kept for the next transaction: another process may have removed one.
    numbers: HashMap<CauseId, i64>,
    causes: HashMap<i64, CauseTally>,
    /// What was completed and what failed again of each operation.
    outcomes: HashMap<i64, (i64, i64)>,
}

#[derive(Debug)]
struct CauseTally {
    count: i64,
    ever: i64,
    /// How many of them now.
    new: i64,
    attempts: i64,
    first: i64,
    last: i64,
}

/// A dead letter that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) at: i64,
    pub(super) attempts: i64,
    /// Whether it went wrong now.
    pub(super) new: bool,
}

impl Default for CauseTally {
    fn default() -> Self {
        Self { count: 0, ever: 0, new: 0, attempts: 0, first: i64::MAX, last: i64::MIN }
    }
}

impl Tally {
    /// Forgets what it holds: it was written, or is not to be.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.causes.clear();
        self.outcomes.clear();
    }

    /// The cause that a fingerprint belongs to, made if it is the first of it.
    pub(super) fn cause(
        &mut self,
        connection: &Connection,
        queue: i64,
        print: &Fingerprint<'_>,
        at: i64,
    ) -> rusqlite::Result<(i64, CauseId)> {
        let id = print.cause(self.key(connection)?);
        if let Some(&number) = self.numbers.get(&id) {
            return Ok((number, id));
        }
        let found = connection
            .prepare_cached("SELECT number FROM bezoar_causes WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        let number = match found {
            Some(number) => number,
            None => insert(connection, queue, print, &id, at)?,
        };
        self.numbers.insert(id.clone(), number);
        Ok((number, id))
    }

    fn key(&mut self, connection: &Connection) -> rusqlite::Result<&StoreKey> {
        if self.key.is_none() {
            self.key = Some(store_key(connection)?);
        }
        Ok(self.key.as_ref().expect("it was just read"))
    }

    /// Counts a dead letter that came.
    pub(super) fn arrived(&mut self, cause: i64, arrived: &Arrived) {
        let tally = self.causes.entry(cause).or_default();
        tally.count += 1;
        tally.ever += 1;
        tally.attempts = tally.attempts.max(arrived.attempts);
        if arrived.new {
            tally.new += 1;
            tally.first = tally.first.min(arrived.at);
            tally.last = tally.last.max(arrived.at);
        }
    }

    /// Counts a dead letter that has been there and is grouped only now.
    pub(super) fn grouped(&mut self, cause: i64, arrived: &Arrived) {
        self.arrived(cause, arrived);
        let tally = self.causes.entry(cause).or_default();
        tally.first = tally.first.min(arrived.at);
        tally.last = tally.last.max(arrived.at);
    }

    /// Counts a dead letter that is gone.
    pub(super) fn left(&mut self, cause: i64) {
        self.causes.entry(cause).or_default().count -= 1;
    }

    /// A message that had been replayed is done. One that was on its way back to a broker is only there now.
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

    /// A message that had been replayed to a broker is done there.
    pub(super) fn completed_away(
        &mut self,
        connection: &Connection,
        operation: OperationId,
        message: &MessageId,
    ) -> rusqlite::Result<()> {
        let done = connection
            .prepare_cached(&format!(
                "UPDATE bezoar_items SET state = 'completed', away = NULL {ONE_AWAY}"
            ))?
            .execute(params![operation.0, message.as_str()])?;
        self.outcomes.entry(operation.0).or_default().0 += done as i64;
        Ok(())
    }

    /// A message that had been replayed to a broker was set aside there again.
    pub(super) fn came_back(
        &mut self,
        connection: &Connection,
        (operation, message): (OperationId, &MessageId),
        (dead, cause): (i64, &CauseId),
    ) -> rusqlite::Result<()> {
        let before = connection
            .prepare_cached(&format!(
                "UPDATE bezoar_items SET state = 'failed again', away = NULL, again = ?3, cause = ?4
                 {ONE_AWAY} RETURNING dead"
            ))?
            .query_row(params![operation.0, message.as_str(), dead, cause.as_str()], |row| {
                row.get(0)
            })
            .optional()?;
        if let Some(before) = before {
            self.outcomes.entry(operation.0).or_default().1 += 1;
            edit::carry_on(connection, before, dead)?;
        }
        Ok(())
    }

    /// A message that had been replayed is set aside again.
    pub(super) fn failed_again(
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
            edit::carry_on(connection, before, dead)?;
        }
        Ok(())
    }

    /// Writes what it holds, and holds it no more.
    pub(crate) fn write(
        &mut self,
        connection: &Connection,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let now = now.as_millisecond();
        for (number, tally) in self.causes.drain() {
            tally.write(connection, number, now)?;
        }
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

impl CauseTally {
    fn write(&self, connection: &Connection, number: i64, now: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "UPDATE bezoar_causes
                 SET count = count + ?2, ever = ever + ?3, attempts = max(attempts, ?4),
                     first_seen = min(first_seen, ?5), last_seen = max(last_seen, ?6)
                 WHERE number = ?1",
            )?
            .execute([number, self.count, self.ever, self.attempts, self.first, self.last])?;
        if self.new > 0 {
            connection
                .prepare_cached(
                    "UPDATE bezoar_causes
                     SET last_hour = CASE hour WHEN ?2 THEN last_hour WHEN ?2 - 1 THEN this_hour ELSE 0 END,
                         this_hour = CASE hour WHEN ?2 THEN this_hour ELSE 0 END + ?3,
                         hour = ?2,
                         state = CASE state WHEN 'resolved' THEN 'regressed' ELSE state END
                     WHERE number = ?1",
                )?
                .execute([number, hour(now), self.new])?;
        }
        Ok(())
    }
}

/// The secret that causes are made with.
pub(super) fn store_key(connection: &Connection) -> rusqlite::Result<StoreKey> {
    connection
        .prepare_cached("SELECT value FROM bezoar_meta WHERE name = 'key'")?
        .query_row([], |row| row.get(0).map(StoreKey::new))
}

fn insert(
    connection: &Connection,
    queue: i64,
    print: &Fingerprint<'_>,
    id: &CauseId,
    at: i64,
) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO bezoar_causes (id, version, queue, type, kind, code, first_seen, last_seen)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        )?
        .insert(params![
            id.as_str(),
            FINGERPRINT_VERSION,
            queue,
            print.message_type.as_str(),
            print.kind.as_str(),
            print.code.as_str(),
            at
        ])
}

/// The replay that sent a message that is on its way.
pub(crate) fn replay_of(
    connection: &Connection,
    seq: i64,
) -> rusqlite::Result<Option<OperationId>> {
    connection
        .prepare_cached(
            "SELECT operation FROM bezoar_items WHERE seq = ?1 AND state = 'in flight'",
        )?
        .query_row([seq], |row| row.get(0).map(OperationId))
        .optional()
}

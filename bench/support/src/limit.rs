//! The limit: what a bare rusqlite program reaches with the same durability, and nothing else.
//!
//! One ordinary table, one index to claim by, cached statements, WAL with `synchronous = FULL`,
//! everything else as SQLite has it. No guarantees beyond lease and delete.

use std::path::Path;

use anyhow::{Result, ensure};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use crate::{BATCH, Measurement, Place};

/// Inserting, a batch a transaction.
pub const INSERT_BATCHED: &str = "limit: insert";
/// Leasing and deleting, a batch a transaction.
pub const PROCESS_BATCHED: &str = "limit: lease, then delete";
/// Inserting one by one.
pub const INSERT_SINGLY: &str = "limit: insert one by one";
/// All three, one after the other.
pub const CYCLE: &str = "limit: insert, lease, delete";
/// Leasing and deleting one by one.
pub const PROCESS_SINGLY: &str = "limit: lease, then delete one by one";

/// Singly is about as many times slower as this.
const SINGLY_SHARE: u64 = 20;

const BODY: [u8; 1024] = [b'x'; 1024];
const QUEUE: &str = "bench";
/// Times are plain numbers: reading a clock is no part of the limit.
const DUE: i64 = 1_000;
const LEASED_UNTIL: i64 = 31_000;
const LEASE: i64 = 1;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        queue TEXT NOT NULL,
        visible_at INTEGER NOT NULL,
        lease INTEGER,
        attempts INTEGER NOT NULL DEFAULT 0,
        body BLOB NOT NULL
    );
    CREATE INDEX message_by_due ON message (queue, visible_at);
";

/// Every measurement of the limit once, on fresh files.
pub fn round(place: &Place, messages: u64) -> Result<Vec<Measurement>> {
    let singly = (messages / SINGLY_SHARE).max(BATCH.into());
    let mut all = Vec::from(measure(place, [INSERT_BATCHED, PROCESS_BATCHED], messages, BATCH)?);
    all.extend(measure(place, [INSERT_SINGLY, PROCESS_SINGLY], singly, 1)?);
    Ok(all)
}

/// Inserting all, then leasing and deleting all, on a fresh file.
pub fn cycle(place: &Place, messages: u64) -> Result<Measurement> {
    let directory = place.scratch()?;
    let mut table = Table::open(directory.path())?;
    Measurement::of(CYCLE, messages, || {
        insert_all(&mut table, messages, BATCH)?;
        process_all(&mut table, messages, BATCH)
    })
}

/// For the notes under the table.
pub fn settings() -> String {
    let sqlite = rusqlite::version();
    format!("rusqlite with SQLite {sqlite}, WAL, synchronous FULL, 1 KiB, {BATCH} a transaction")
}

fn measure(place: &Place, names: [&str; 2], count: u64, batch: u32) -> Result<[Measurement; 2]> {
    let directory = place.scratch()?;
    let mut table = Table::open(directory.path())?;
    let inserted = Measurement::of(names[0], count, || insert_all(&mut table, count, batch))?;
    let processed = Measurement::of(names[1], count, || process_all(&mut table, count, batch))?;
    Ok([inserted, processed])
}

fn insert_all(table: &mut Table, count: u64, batch: u32) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let now = left.min(batch.into());
        table.insert((0..now).map(|_| &BODY[..]))?;
        left -= now;
    }
    Ok(())
}

fn process_all(table: &mut Table, count: u64, batch: u32) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let claimed = table.claim(batch)?;
        ensure!(!claimed.is_empty(), "{left} messages were not there to claim");
        left -= claimed.len() as u64;
        table.delete(claimed.iter().map(|(id, _)| *id))?;
    }
    Ok(())
}

/// One table with what a queue needs at least. Each operation is a transaction.
#[derive(Debug)]
pub struct Table {
    connection: Connection,
}

impl Table {
    /// On a fresh file in this folder.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::on(Connection::open(folder.join("limit.db"))?)
    }

    fn on(connection: Connection) -> Result<Self> {
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection })
    }

    /// Adds messages.
    pub fn insert<'a>(&mut self, bodies: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        self.in_transaction(|transaction| {
            let sql = "INSERT INTO message (queue, visible_at, body) VALUES (?1, ?2, ?3)";
            let mut insert = transaction.prepare_cached(sql)?;
            for body in bodies {
                insert.execute(params![QUEUE, DUE, body])?;
            }
            Ok(())
        })
    }

    /// Leases the oldest, and reads the bodies too: a worker needs them.
    pub fn claim(&mut self, limit: u32) -> Result<Vec<(i64, Vec<u8>)>> {
        self.in_transaction(|transaction| {
            let mut select = transaction.prepare_cached(
                "SELECT id, body FROM message WHERE queue = ?1 AND visible_at <= ?2
                 ORDER BY visible_at, id LIMIT ?3",
            )?;
            let mut update = transaction.prepare_cached(
                "UPDATE message SET visible_at = ?1, lease = ?2, attempts = attempts + 1 WHERE id = ?3",
            )?;
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let due = select.query_map(params![QUEUE, DUE, limit], row)?;
            let due = due.collect::<rusqlite::Result<Vec<(i64, Vec<u8>)>>>()?;
            for (id, _) in &due {
                update.execute(params![LEASED_UNTIL, LEASE, id])?;
            }
            Ok(due)
        })
    }

    /// Removes what was leased.
    pub fn delete(&mut self, claimed: impl Iterator<Item = i64>) -> Result<()> {
        self.in_transaction(|transaction| {
            let sql = "DELETE FROM message WHERE id = ?1 AND lease = ?2";
            let mut delete = transaction.prepare_cached(sql)?;
            for id in claimed {
                ensure!(delete.execute(params![id, LEASE])? == 1, "message {id} was not ours");
            }
            Ok(())
        })
    }

    fn in_transaction<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_inserted_leased_and_deleted() {
        let mut table = Table::on(Connection::open_in_memory().unwrap()).unwrap();
        insert_all(&mut table, 300, BATCH).unwrap();
        assert_eq!(count(&table), 300);
        process_all(&mut table, 300, BATCH).unwrap();
        assert_eq!(count(&table), 0);
    }

    #[test]
    fn claiming_uses_the_index() {
        let table = Table::on(Connection::open_in_memory().unwrap()).unwrap();
        let plan: String = table
            .connection
            .query_row(
                "EXPLAIN QUERY PLAN SELECT id, body FROM message
                 WHERE queue = '' AND visible_at <= 0 ORDER BY visible_at, id LIMIT 1",
                [],
                |row| row.get(3),
            )
            .unwrap();
        assert!(plan.contains("USING INDEX message_by_due"), "{plan}");
    }

    fn count(table: &Table) -> i64 {
        table.connection.query_row("SELECT count(*) FROM message", [], |row| row.get(0)).unwrap()
    }
}

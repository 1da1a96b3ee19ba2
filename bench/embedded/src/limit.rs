//! The limit: what a bare rusqlite program reaches with the same durability, and nothing else.
//!
//! One ordinary table, one index to claim by, cached statements, WAL with `synchronous = FULL`,
//! everything else as SQLite has it. No guarantees beyond lease and delete.

use anyhow::{Result, ensure};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::measurement::Measurement;
use crate::options::{BATCH, Sizes};
use crate::place::Place;

pub(crate) const INSERT_BATCHED: &str = "limit: insert";
pub(crate) const PROCESS_BATCHED: &str = "limit: lease, then delete";
pub(crate) const INSERT_SINGLY: &str = "limit: insert one by one";
pub(crate) const PROCESS_SINGLY: &str = "limit: lease, then delete one by one";

/// Singly is about as many times slower as this.
const SINGLY_SHARE: u64 = 20;

const BODY: [u8; 1024] = [b'x'; 1024];
const QUEUE: &str = "bench";
/// Times are plain numbers: reading a clock is no part of the limit.
const DUE: i64 = 1_000;
const LEASED_UNTIL: i64 = 31_000;

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
pub(crate) fn round(place: &Place, sizes: &Sizes) -> Result<Vec<Measurement>> {
    let singly = sizes.share(SINGLY_SHARE);
    let mut all =
        Vec::from(measure(place, [INSERT_BATCHED, PROCESS_BATCHED], sizes.messages, BATCH)?);
    all.extend(measure(place, [INSERT_SINGLY, PROCESS_SINGLY], singly, 1)?);
    Ok(all)
}

/// For the notes under the table.
pub(crate) fn settings() -> String {
    let sqlite = rusqlite::version();
    format!("rusqlite with SQLite {sqlite}, WAL, synchronous FULL, 1 KiB, {BATCH} a transaction")
}

fn measure(place: &Place, names: [&str; 2], count: u64, batch: u32) -> Result<[Measurement; 2]> {
    let directory = place.scratch()?;
    let mut connection = Connection::open(directory.path().join("limit.db"))?;
    connection.execute_batch(SCHEMA)?;
    let inserted = Measurement::of(names[0], count, || insert_all(&mut connection, count, batch))?;
    let processed =
        Measurement::of(names[1], count, || process_all(&mut connection, count, batch))?;
    Ok([inserted, processed])
}

fn insert_all(connection: &mut Connection, count: u64, batch: u32) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let now = left.min(batch.into());
        in_transaction(connection, |transaction| insert(transaction, now))?;
        left -= now;
    }
    Ok(())
}

fn process_all(connection: &mut Connection, count: u64, batch: u32) -> Result<()> {
    let mut left = count;
    let mut lease = 0;
    while left > 0 {
        lease += 1;
        let claimed = in_transaction(connection, |transaction| claim(transaction, lease, batch))?;
        ensure!(!claimed.is_empty(), "{left} messages were not there to claim");
        left -= claimed.len() as u64;
        in_transaction(connection, |transaction| delete(transaction, lease, &claimed))?;
    }
    Ok(())
}

fn insert(transaction: &Transaction<'_>, count: u64) -> Result<()> {
    let mut insert = transaction
        .prepare_cached("INSERT INTO message (queue, visible_at, body) VALUES (?1, ?2, ?3)")?;
    for _ in 0..count {
        insert.execute(params![QUEUE, DUE, BODY])?;
    }
    Ok(())
}

/// Reads the bodies too: a worker needs them.
fn claim(transaction: &Transaction<'_>, lease: i64, limit: u32) -> Result<Vec<(i64, Vec<u8>)>> {
    let mut select = transaction.prepare_cached(
        "SELECT id, body FROM message WHERE queue = ?1 AND visible_at <= ?2
         ORDER BY visible_at, id LIMIT ?3",
    )?;
    let mut update = transaction.prepare_cached(
        "UPDATE message SET visible_at = ?1, lease = ?2, attempts = attempts + 1 WHERE id = ?3",
    )?;
    let due = select.query_map(params![QUEUE, DUE, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let due = due.collect::<rusqlite::Result<Vec<(i64, Vec<u8>)>>>()?;
    for (id, _) in &due {
        update.execute(params![LEASED_UNTIL, lease, id])?;
    }
    Ok(due)
}

fn delete(transaction: &Transaction<'_>, lease: i64, claimed: &[(i64, Vec<u8>)]) -> Result<()> {
    let mut delete =
        transaction.prepare_cached("DELETE FROM message WHERE id = ?1 AND lease = ?2")?;
    for (id, _) in claimed {
        ensure!(delete.execute(params![id, lease])? == 1, "message {id} was not ours");
    }
    Ok(())
}

fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T>,
) -> Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let result = work(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_inserted_leased_and_deleted() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        insert_all(&mut connection, 300, BATCH).unwrap();
        assert_eq!(count(&connection), 300);
        process_all(&mut connection, 300, BATCH).unwrap();
        assert_eq!(count(&connection), 0);
    }

    #[test]
    fn claiming_uses_the_index() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(SCHEMA).unwrap();
        let plan: String = connection
            .query_row(
                "EXPLAIN QUERY PLAN SELECT id, body FROM message
                 WHERE queue = '' AND visible_at <= 0 ORDER BY visible_at, id LIMIT 1",
                [],
                |row| row.get(3),
            )
            .unwrap();
        assert!(plan.contains("USING INDEX message_by_due"), "{plan}");
    }

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM message", [], |row| row.get(0)).unwrap()
    }
}

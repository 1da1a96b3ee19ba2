//! Grouping dead letters by cause, and counting them per cause.
//!
//! A dead letter's cause is its fingerprint ([`Fingerprint`], a rule of core) under the store's key. The first one of
//! a cause inserts a row into `bezoar_causes`; every other only changes counters. A transaction may add thousands to
//! one cause, so what it adds is collected here and written once per cause when the transaction ends. `regroup`
//! groups dead letters that have no cause yet, or one of an older rule.

use std::collections::HashMap;

use bezoar_core::catalogue::{CauseId, FINGERPRINT_VERSION, Fingerprint, HourCounts, StoreKey};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{catalogue::dead_letters::record, session::Session};

/// What a transaction adds to the counters of causes. Empty between transactions, except for the key.
#[derive(Debug, Default)]
pub(crate) struct CauseCounts {
    key: Option<StoreKey>,
    /// Causes that were looked up. Not kept for the next transaction, because another process may remove
    /// one.
    numbers: HashMap<CauseId, i64>,
    added: HashMap<i64, Added>,
}

#[derive(Debug)]
struct Added {
    count: i64,
    ever: i64,
    /// How many of them were newly dead-lettered, and how many of those in this hour and in the
    /// last.
    new: i64,
    this_hour: i64,
    last_hour: i64,
    attempts: i64,
    first: i64,
    last: i64,
}

/// A dead letter that is added to a cause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) died_at: i64,
    pub(crate) now: i64,
    pub(crate) attempts: i64,
    /// Whether it was newly dead-lettered, rather than an edited version or regrouped.
    pub(crate) new: bool,
}

impl Default for Added {
    fn default() -> Self {
        Self {
            count: 0,
            ever: 0,
            new: 0,
            this_hour: 0,
            last_hour: 0,
            attempts: 0,
            first: i64::MAX,
            last: i64::MIN,
        }
    }
}

impl CauseCounts {
    /// Clears the collected counts, after they were written or the transaction was rolled back.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.added.clear();
    }

    /// The cause of a fingerprint. Inserts it if this is its first dead letter.
    pub(crate) fn cause(
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

    /// Counts a new dead letter.
    pub(crate) fn arrived(&mut self, cause: i64, arrived: &Arrived) {
        let added = self.added.entry(cause).or_default();
        added.count += 1;
        added.ever += 1;
        added.attempts = added.attempts.max(arrived.attempts);
        if arrived.new {
            let one = HourCounts::default().plus(
                HourCounts::hour_of(arrived.now),
                HourCounts::hour_of(arrived.died_at),
                1,
            );
            added.new += 1;
            added.this_hour += one.this.cast_signed();
            added.last_hour += one.last.cast_signed();
            added.first = added.first.min(arrived.died_at);
            added.last = added.last.max(arrived.died_at);
        }
    }

    /// Counts an older dead letter that is grouped only now.
    fn grouped(&mut self, cause: i64, arrived: &Arrived) {
        self.arrived(cause, arrived);
        let added = self.added.entry(cause).or_default();
        added.first = added.first.min(arrived.died_at);
        added.last = added.last.max(arrived.died_at);
    }

    /// Counts a dead letter that was removed.
    pub(crate) fn left(&mut self, cause: i64) {
        self.added.entry(cause).or_default().count -= 1;
    }

    /// Writes and clears the collected counts.
    pub(crate) fn write(&mut self, connection: &Connection, now: i64) -> rusqlite::Result<()> {
        self.added.drain().try_for_each(|(number, added)| added.write(connection, number, now))
    }
}

impl Added {
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
                     SET last_hour = CASE hour WHEN ?2 THEN last_hour WHEN ?2 - 1 THEN this_hour ELSE 0 END + ?4,
                         this_hour = CASE hour WHEN ?2 THEN this_hour ELSE 0 END + ?3,
                         hour = ?2,
                         state = CASE state WHEN 'resolved' THEN 'regressed' ELSE state END
                     WHERE number = ?1",
                )?
                .execute([number, HourCounts::hour_of(now), self.this_hour, self.last_hour])?;
        }
        Ok(())
    }
}

/// The secret key of the fingerprints.
pub(crate) fn store_key(connection: &Connection) -> rusqlite::Result<StoreKey> {
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

/// Groups up to `limit` dead letters that have no cause yet, or one of an older rule. Returns how many there
/// were.
pub(crate) fn regroup(
    session: &mut Session,
    connection: &Connection,
    limit: u32,
) -> rusqlite::Result<u32> {
    let mut ids: Vec<i64> = connection
        .prepare_cached("SELECT id FROM bezoar_dead WHERE cause IS NULL ORDER BY id LIMIT ?1")?
        .query_map([limit], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let more = limit - ids.len() as u32;
    let mut older = connection.prepare_cached(
        "SELECT d.id FROM bezoar_causes AS c CROSS JOIN bezoar_dead AS d ON d.cause = c.number
         WHERE c.version <> ?1 AND c.count > 0 LIMIT ?2",
    )?;
    for id in older.query_map([FINGERPRINT_VERSION, more], |row| row.get(0))? {
        ids.push(id?);
    }
    for id in &ids {
        group(session, connection, *id)?;
    }
    Ok(ids.len() as u32)
}

fn group(session: &mut Session, connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let Some(dead) = record::dead_letter(connection, id, record::NO_BODY)? else { return Ok(()) };
    let ledger = &dead.message.ledger;
    let print = Fingerprint::of(&dead.queue, &dead.message, &[], &dead.reason);
    let (number, _) = session.causes.cause(connection, dead.queue_number, &print, dead.died_at)?;
    connection
        .prepare_cached("UPDATE bezoar_dead SET cause = ?2 WHERE id = ?1")?
        .execute([id, number])?;
    let arrived = Arrived {
        died_at: dead.died_at,
        now: session.now_millis(),
        attempts: ledger.failed.into(),
        new: false,
    };
    session.causes.grouped(number, &arrived);
    if let Some(before) = dead.cause {
        session.causes.left(before);
    }
    Ok(())
}

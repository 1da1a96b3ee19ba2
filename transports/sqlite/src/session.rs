//! The writer's state, within a transaction and between transactions, and the statements for sending and claiming.

use std::{collections::HashMap, time::Duration};

use bezoar_core::{Body, ByteLimit, Delivery, OrderingKey, Outgoing, QueueName, millis, to_millis};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    catalogue::{CauseCounts, ReplayCounts, replay_of},
    lease::{self, Moved},
    ordering::WaitingRow,
    queue_signals::QueueSignals,
    row,
};

#[derive(Debug, Default)]
pub(crate) struct Session {
    now: Timestamp,
    /// Ids of known queues. Queues are never removed.
    queues: HashMap<QueueName, i64>,
    /// What this transaction adds to each queue's counters, waiting and dead.
    counts: HashMap<i64, (i64, i64)>,
    /// What this transaction adds to the counters of causes.
    pub(crate) causes: CauseCounts,
    /// What this transaction adds to the outcomes of replays.
    pub(crate) replays: ReplayCounts,
    /// Queues in which this transaction made messages ready.
    woken: Vec<QueueName>,
    pub(crate) moved: Moved,
    /// The arrival time of dead letters in this transaction, once it was determined.
    pub(crate) arrival: Option<i64>,
    /// How many bytes of the log cannot be reused because of a reader.
    pub(crate) blocked_log_bytes: u64,
}

/// A claimed message with the previous values of its row, to undo the claim exactly.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) delivery: Delivery,
    pub(crate) visible_at: i64,
    /// The token of an expired lease. If the claim is undone, its holder can still settle.
    pub(crate) token: Option<i64>,
}

/// The messages of a batch that were not stored, because their id is known, by position.
pub(crate) type KnownIds = HashMap<usize, KnownId>;

/// Which message was accepted before with the id of one that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownId {
    /// The same message.
    Same,
    /// A different message.
    Other,
}

impl Session {
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.now = now;
        self.arrival = None;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn now_millis(&self) -> i64 {
        self.now.as_millisecond()
    }

    /// The time `delay` from now.
    pub(crate) fn after(&self, delay: Duration) -> i64 {
        millis(self.now_millis().saturating_add(to_millis(delay))).as_millisecond()
    }

    pub(crate) fn count(&mut self, queue: i64, waiting: i64, dead: i64) {
        let counts = self.counts.entry(queue).or_default();
        counts.0 += waiting;
        counts.1 += dead;
    }

    pub(crate) fn wake(&mut self, queue: &QueueName) {
        if self.woken.last() != Some(queue) {
            self.woken.push(queue.clone());
        }
    }

    /// Writes the counters once per queue, cause, operation and transaction, not once per message.
    pub(crate) fn write_counts(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let now = self.now_millis();
        self.causes.write(connection, now)?;
        self.replays.write(connection, now)?;
        let sql = "UPDATE bezoar_queues
                   SET waiting = waiting + ?2, dead = dead + ?3, clock = max(clock, ?4) WHERE id = ?1";
        for (queue, (waiting, dead)) in self.counts.drain().filter(|(_, counts)| *counts != (0, 0))
        {
            connection.prepare_cached(sql)?.execute([queue, waiting, dead, now])?;
        }
        Ok(())
    }

    /// Runs `work`, and undoes it if it returns an error. Other jobs of the transaction are not
    /// undone.
    pub(crate) fn undoing<T, E>(
        &mut self,
        connection: &Connection,
        work: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<Result<T, E>>,
    ) -> rusqlite::Result<Result<T, E>> {
        self.write_counts(connection)?; // so that `work` sees the counts, and that the remaining counts are those of `work`
        let woken = self.woken.len();
        connection.prepare_cached("SAVEPOINT act")?.execute([])?;
        let outcome = work(self, connection)?;
        if outcome.is_ok() {
            self.write_counts(connection)?;
        } else {
            connection.prepare_cached("ROLLBACK TO act")?.execute([])?;
            self.counts.clear();
            self.clear_catalogue();
            self.woken.truncate(woken);
        }
        connection.prepare_cached("RELEASE act")?.execute([])?;
        Ok(outcome)
    }

    fn clear_catalogue(&mut self) {
        self.causes.clear();
        self.replays.clear();
    }

    pub(crate) fn committed(&mut self, signals: &QueueSignals) {
        self.clear_catalogue();
        self.woken.drain(..).for_each(|queue| signals.notify(&queue));
    }

    pub(crate) fn rolled_back(&mut self) {
        self.counts.clear();
        self.clear_catalogue();
        self.woken.clear();
        self.queues.clear(); // one of them may have been provisioned in this transaction
    }

    /// The number of the queue with this name, if it exists.
    pub(crate) fn queue(
        &mut self,
        connection: &Connection,
        name: &QueueName,
    ) -> rusqlite::Result<Option<i64>> {
        if let Some(&queue) = self.queues.get(name) {
            return Ok(Some(queue));
        }
        let queue = connection
            .prepare_cached("SELECT id FROM bezoar_queues WHERE name = ?1")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(queue) = queue {
            self.queues.insert(name.clone(), queue);
        }
        Ok(queue)
    }

    /// Stores messages, except those whose id was accepted before.
    pub(crate) fn send(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        batch: &[Outgoing],
    ) -> rusqlite::Result<KnownIds> {
        let mut wait = connection.prepare_cached(
            "INSERT INTO bezoar_waiting
             (queue, visible_at, seq, acquired, failed, released, replayed, history)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let (mut stored, mut known) = (0, KnownIds::new());
        let mut next = match batch.iter().any(|outgoing| outgoing.once.is_some()) {
            true => row::next_seq(connection)?,
            false => 0, // nobody asks
        };
        for (place, outgoing) in batch.iter().enumerate() {
            if let Some(id) = self.accepted_before(connection, (queue, next), outgoing)? {
                known.insert(place, id);
                continue;
            }
            let Outgoing { message, delay, .. } = outgoing;
            let seq = row::insert_message(connection, message)?;
            next = seq + 1;
            let ledger = &message.ledger;
            row::insert_ledger(connection, seq, ledger)?;
            let row = WaitingRow {
                visible_at: self.after(*delay),
                seq,
                acquired: ledger.acquired.into(),
                failed: ledger.failed.into(),
                released: ledger.released.into(),
                replayed: ledger.replayed.into(),
                history: row::has_details(ledger).into(),
            };
            let key = message.ordering_key.as_ref().map(OrderingKey::as_str);
            if self.block(connection, queue, key, &row)? {
                continue;
            }
            stored += 1;
            wait.execute([
                queue,
                row.visible_at,
                seq,
                row.acquired,
                row.failed,
                row.released,
                row.replayed,
                row.history,
            ])?;
        }
        self.count(queue, stored, 0);
        self.wake(name);
        Ok(known)
    }

    /// Whether a message with this id was accepted before. If not, the id is remembered from now on, with the row `next`
    /// that the message will have.
    fn accepted_before(
        &self,
        connection: &Connection,
        (queue, next): (i64, i64),
        outgoing: &Outgoing,
    ) -> rusqlite::Result<Option<KnownId>> {
        let Some(window) = outgoing.once else { return Ok(None) };
        let digest = outgoing.message.body_digest().cast_signed();
        // Each new id removes up to two expired ones, so that the table does not grow forever.
        connection
            .prepare_cached(
                "DELETE FROM bezoar_once WHERE (queue, id) IN
                 (SELECT queue, id FROM bezoar_once WHERE until <= ?1 ORDER BY until LIMIT 2)",
            )?
            .execute([self.now_millis()])?;
        let remembered = connection
            .prepare_cached(
                "INSERT INTO bezoar_once (queue, id, until, digest, seq) VALUES (?1, ?2, ?3, ?5, ?6)
                 ON CONFLICT DO UPDATE SET until = excluded.until, digest = excluded.digest, seq = excluded.seq
                 WHERE until <= ?4",
            )?
            .execute(params![
                queue,
                outgoing.message.id.as_str(),
                self.after(window),
                self.now_millis(),
                digest,
                next,
            ])?;
        if remembered == 1 {
            return Ok(None);
        }
        // Ids stored by an earlier version have no digest; they count as the same message.
        let is_other: bool = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM bezoar_once WHERE queue = ?1 AND id = ?2 AND digest <> ?3)",
            )?
            .query_row(params![queue, outgoing.message.id.as_str(), digest], |row| row.get(0))?;
        Ok(Some(if is_other { KnownId::Other } else { KnownId::Same }))
    }

    /// Leases up to `max` messages and counts the acquisition of each. Damaged and malformed rows become
    /// dead letters; the second value is their number.
    pub(crate) fn claim(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        (max, max_bytes): (u32, usize),
        lease: Duration,
        token: i64,
    ) -> rusqlite::Result<(Vec<Claimed>, usize)> {
        let mut claimed = Vec::new();
        let mut undeliverable = Vec::new();
        let mut limit = ByteLimit::new(max_bytes);
        let mut due = connection.prepare_cached(
            "SELECT w.visible_at, w.seq, w.acquired, w.failed, w.released, w.replayed, w.history,
                    m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, m.body, m.checksum,
                    m.expires_at, m.ordering_key, w.token
             FROM bezoar_waiting AS w JOIN bezoar_messages AS m ON m.seq = w.seq
             WHERE w.queue = ?1 AND w.visible_at <= ?2
             ORDER BY w.visible_at, w.seq LIMIT ?3",
        )?;
        let mut rows = due.query(params![queue, self.now_millis(), max])?;
        let until = self.after(lease);
        while let Some(row) = rows.next()? {
            let (visible_at, seq) = (row.get(0)?, row.get(1)?);
            let (mut message, integrity) = row::message(connection, row, seq, 2, 7)?;
            if let Some(reason) = integrity.problem() {
                undeliverable.push((visible_at, seq, message.with_body(Body::default()), reason));
                continue;
            }
            if !limit.admits(message.body.len()) {
                break;
            }
            if message.ledger.replayed > 0 {
                message.ledger.replay = replay_of(connection, seq)?;
            }
            let receipt = lease::receipt(seq, token, until);
            let delivery = Delivery::new(message, receipt, Some(millis(until)));
            claimed.push(Claimed { delivery, visible_at, token: row.get(18)? });
        }
        drop(rows);
        self.lease(connection, queue, &claimed, until, token)?;
        for (visible_at, seq, message, reason) in &undeliverable {
            let place = (queue, *visible_at, *seq);
            self.dead_letter_row(connection, name, place, message, reason)?;
        }
        Ok((claimed, undeliverable.len()))
    }

    fn lease(
        &self,
        connection: &Connection,
        queue: i64,
        claimed: &[Claimed],
        until: i64,
        token: i64,
    ) -> rusqlite::Result<()> {
        let mut lease = connection.prepare_cached(
            "UPDATE bezoar_waiting SET visible_at = ?4, token = ?5, acquired = acquired + 1
             WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3",
        )?;
        for Claimed { delivery, visible_at, .. } in claimed {
            lease.execute(params![queue, visible_at, row::seq(delivery), until, token])?;
        }
        Ok(())
    }

    /// When the next message of the queue can be delivered.
    pub(crate) fn next(
        &self,
        connection: &Connection,
        queue: i64,
    ) -> rusqlite::Result<Option<Timestamp>> {
        connection
            .prepare_cached(
                "SELECT visible_at FROM bezoar_waiting WHERE queue = ?1 ORDER BY visible_at LIMIT 1",
            )?
            .query_row([queue], |row| row.get(0).map(millis))
            .optional()
    }
}

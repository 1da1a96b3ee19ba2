//! The statements that settle, renew, replay and remove messages.

use std::time::Duration;

use bezoar_core::{DeadLetterId, Delivery, Ledger, Message, QueueName, Reason, Settlement};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    catalogue::{Arrival, Dying, FREE, reopen_original},
    lease::Lease,
    row,
    session::{Claimed, Session},
};

/// The values that a dead letter keeps from its row in the hot table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) acquired: i64,
    pub(crate) failed: i64,
    pub(crate) released: i64,
    pub(crate) replayed: i64,
    pub(crate) history: bool,
}

/// A dead letter that was deleted from its table.
struct Taken {
    seq: i64,
    replayed: i64,
    history: i64,
    edited_from: Option<i64>,
}

impl Session {
    /// Applies the settlement; `false` if the receipt is stale.
    pub(crate) fn settle(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        delivery: &Delivery,
        settlement: &Settlement,
    ) -> rusqlite::Result<bool> {
        let Some(lease) = Lease::of(queue, delivery) else { return Ok(false) };
        let message = &delivery.message;
        if matches!(settlement, Settlement::Complete) {
            let done = self.complete(connection, &lease)?;
            if done {
                self.unblock_next(connection, (name, queue), message.ordering_key.as_ref())?;
            }
            return Ok(done);
        }
        let mut after = message.ledger.clone();
        settlement.record(&mut after);
        match settlement {
            Settlement::DeadLetter { reason, tries } => {
                let Some(mut counts) = self.remove(connection, &lease)? else { return Ok(false) };
                (counts.failed, counts.released) = (after.failed.into(), after.released.into());
                counts.history |= !tries.is_empty();
                row::record(connection, lease.seq, &message.ledger, &after, tries.len())?;
                let place = (name, queue, lease.seq);
                let dying = Dying { place, message, reason, counts, tries, died_at: None };
                self.insert_dead(connection, &dying, Arrival::Died)?;
                self.unblock_next(connection, (name, queue), message.ordering_key.as_ref())?;
                Ok(true)
            }
            Settlement::Retry { after: delay, tries } => {
                let done = self.put_back(connection, name, &lease, *delay, message, &after)?;
                if done {
                    row::record(connection, lease.seq, &message.ledger, &after, tries.len())?;
                }
                Ok(done)
            }
            Settlement::Release { after: delay } | Settlement::Uncounted { after: delay, .. } => {
                self.put_back(connection, name, &lease, *delay, message, &after)
            }
            _ => self.put_back(connection, name, &lease, Duration::ZERO, message, &after),
        }
    }

    fn complete(&mut self, connection: &Connection, lease: &Lease) -> rusqlite::Result<bool> {
        let Some(counts) = self.remove(connection, lease)? else { return Ok(false) };
        row::delete_message(connection, lease.seq, counts.history)?;
        if counts.replayed > 0 {
            self.replays.completed(connection, lease.seq)?;
        }
        Ok(true)
    }

    /// Deletes a leased message from the hot table.
    fn remove(
        &mut self,
        connection: &Connection,
        lease: &Lease,
    ) -> rusqlite::Result<Option<Counts>> {
        let mut delete = connection.prepare_cached(
            "DELETE FROM bezoar_waiting WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3 AND token = ?4
             RETURNING acquired, failed, released, replayed, history",
        )?;
        let counts = self.moved.find(connection, lease, |visible_at| {
            delete.query_row([lease.queue, visible_at, lease.seq, lease.token], counts).optional()
        })?;
        if counts.is_some() {
            self.moved.forget(lease);
            self.count(lease.queue, -1, 0);
        }
        Ok(counts)
    }

    fn put_back(
        &mut self,
        connection: &Connection,
        name: &QueueName,
        lease: &Lease,
        delay: Duration,
        message: &Message,
        ledger: &Ledger,
    ) -> rusqlite::Result<bool> {
        // The token proves that nobody has changed the counters since the message was claimed.
        let mut update = connection.prepare_cached(
            "UPDATE bezoar_waiting
             SET visible_at = ?5, token = NULL, failed = ?6, released = ?7, history = max(history, ?8)
             WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3 AND token = ?4",
        )?;
        let ready_at = self.after(delay);
        let updated = self.moved.find(connection, lease, |visible_at| {
            let updated = update.execute(params![
                lease.queue,
                visible_at,
                lease.seq,
                lease.token,
                ready_at,
                ledger.failed,
                ledger.released,
                row::has_details(ledger)
            ])?;
            Ok((updated == 1).then_some(()))
        })?;
        if updated.is_none() {
            return Ok(false);
        }
        self.moved.forget(lease);
        if ledger.uncounted != message.ledger.uncounted {
            row::write_uncounted(connection, lease.seq, ledger)?;
        }
        self.wake(name);
        Ok(true)
    }

    /// Renews a lease for `duration` from now; `None` if the receipt is stale.
    pub(crate) fn extend(
        &mut self,
        connection: &Connection,
        lease: &Lease,
        duration: Duration,
    ) -> rusqlite::Result<Option<Timestamp>> {
        let until = self.after(duration);
        let mut update = connection.prepare_cached(
            "UPDATE bezoar_waiting SET visible_at = ?5
             WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3 AND token = ?4",
        )?;
        let found = self.moved.find(connection, lease, |visible_at| {
            let place = [lease.queue, visible_at, lease.seq, lease.token, until];
            Ok((update.execute(place)? == 1).then_some(visible_at))
        })?;
        Ok(found.map(|from| self.moved.remember(lease, from, until)))
    }

    /// Keeps leases valid after a forward step of the clock from `expected` to now: each keeps its
    /// remaining time. Otherwise all of them would expire at once while their holders still work.
    pub(crate) fn move_leases(
        &mut self,
        connection: &Connection,
        expected: Timestamp,
    ) -> rusqlite::Result<()> {
        let (expected, now) = (expected.as_millisecond(), self.now_millis());
        self.moved.clock_stepped();
        let mut caught = connection.prepare_cached(
            "SELECT w.queue, w.visible_at, w.seq, w.token FROM bezoar_queues AS q
             JOIN bezoar_waiting AS w ON w.queue = q.id AND w.visible_at > ?1 AND w.visible_at <= ?2
             WHERE w.token IS NOT NULL",
        )?;
        let lease = |row: &rusqlite::Row<'_>| {
            let [queue, visible_at, seq, token] =
                [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
            Ok(Lease { queue, visible_at, seq, token })
        };
        let caught: Vec<Lease> =
            caught.query_map([expected, now], lease)?.collect::<rusqlite::Result<_>>()?;
        let mut update = connection.prepare_cached(
            "UPDATE bezoar_waiting SET visible_at = ?4 WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3",
        )?;
        for lease in &caught {
            let until = now.saturating_add(lease.visible_at - expected);
            update.execute([lease.queue, lease.visible_at, lease.seq, until])?;
            self.moved.remember(lease, lease.visible_at, until);
        }
        Ok(())
    }

    /// Undoes a claim whose deliveries reached no receiver, as if it had never happened.
    pub(crate) fn unclaim(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        claimed: &[Claimed],
    ) -> rusqlite::Result<()> {
        let mut undo = connection.prepare_cached(
            "UPDATE bezoar_waiting SET visible_at = ?5, token = ?6, acquired = acquired - 1
             WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3 AND token = ?4",
        )?;
        for Claimed { delivery, visible_at, token } in claimed {
            if let Some(Lease { visible_at: until, seq, token: ours, .. }) =
                Lease::of(queue, delivery)
            {
                undo.execute(params![queue, until, seq, ours, visible_at, token])?;
            }
        }
        self.wake(name);
        Ok(())
    }

    /// Dead-letters a row that is not leased.
    pub(crate) fn dead_letter_row(
        &mut self,
        connection: &Connection,
        name: &QueueName,
        (queue, visible_at, seq): (i64, i64, i64),
        message: &Message,
        reason: &Reason,
    ) -> rusqlite::Result<()> {
        let counts = connection
            .prepare_cached(
                "DELETE FROM bezoar_waiting WHERE queue = ?1 AND visible_at = ?2 AND seq = ?3
                 RETURNING acquired, failed, released, replayed, history",
            )?
            .query_row([queue, visible_at, seq], counts)?;
        self.count(queue, -1, 0);
        let dying =
            Dying { place: (name, queue, seq), message, reason, counts, tries: &[], died_at: None };
        self.insert_dead(connection, &dying, Arrival::Died)?;
        self.unblock_next(connection, (name, queue), message.ordering_key.as_ref())
    }

    /// Replays dead letters as a new generation; unknown ids are ignored.
    pub(crate) fn replay(
        &mut self,
        connection: &Connection,
        (name, queue): (&QueueName, i64),
        ids: &[DeadLetterId],
    ) -> rusqlite::Result<u64> {
        let mut moved = 0;
        for id in ids {
            let condition = "edited_as IS NULL AND unapproved = 0";
            if let Some(taken) = self.take_dead(connection, queue, *id, condition)? {
                let generation = (taken.replayed + 1, taken.history);
                if self.rejoin(connection, queue, taken.seq, generation)? {
                    self.count(queue, 1, 0);
                }
                moved += 1;
            }
        }
        self.wake(name);
        Ok(moved)
    }

    /// Discards dead letters; unknown ids are ignored.
    pub(crate) fn discard(
        &mut self,
        connection: &Connection,
        queue: i64,
        ids: &[DeadLetterId],
    ) -> rusqlite::Result<u64> {
        let mut removed = 0;
        for id in ids {
            if let Some(taken) = self.take_dead(connection, queue, *id, "true")? {
                reopen_original(connection, id.number(), taken.edited_from)?;
                row::delete_message(connection, taken.seq, true)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Deletes a dead letter from its table, unless an operation holds it or it does not meet
    /// `condition`.
    fn take_dead(
        &mut self,
        connection: &Connection,
        queue: i64,
        id: DeadLetterId,
        condition: &'static str,
    ) -> rusqlite::Result<Option<Taken>> {
        let sql = format!(
            "DELETE FROM bezoar_dead WHERE id = ?1 AND queue = ?2 AND {condition} AND {FREE}
             RETURNING seq, replayed, history, cause, edited_from"
        );
        let taken = connection
            .prepare_cached(&sql)?
            .query_row([id.number(), queue], |row| {
                let (seq, replayed, history) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let edited_from = row.get(4)?;
                Ok((Taken { seq, replayed, history, edited_from }, row.get(3)?))
            })
            .optional()?;
        Ok(taken.map(|(taken, cause)| {
            self.left(queue, cause);
            taken
        }))
    }
}

fn counts(row: &rusqlite::Row<'_>) -> rusqlite::Result<Counts> {
    Ok(Counts {
        acquired: row.get(0)?,
        failed: row.get(1)?,
        released: row.get(2)?,
        replayed: row.get(3)?,
        history: row.get(4)?,
    })
}

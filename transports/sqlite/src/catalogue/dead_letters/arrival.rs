//! Inserts a dead letter: its row, its cause, and the outcome of the replay that had sent it.

use bezoar_core::{
    CorrelationId, FailedTry, Message, QueueName, Reason,
    catalogue::{CauseId, Fingerprint},
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{catalogue::causes::cause_grouping::Arrived, session::Session, settle::Counts};

/// A message that is being dead-lettered.
pub(crate) struct Dying<'a> {
    /// The name and number of its queue, and the message's own number.
    pub(crate) place: (&'a QueueName, i64, i64),
    pub(crate) message: &'a Message,
    pub(crate) reason: &'a Reason,
    pub(crate) counts: Counts,
    /// The failures of the last attempt, which the ledger does not contain yet.
    pub(crate) tries: &'a [FailedTry],
    /// When it was dead-lettered, if elsewhere or earlier; `None` if it happens in this transaction.
    pub(crate) died_at: Option<i64>,
}

/// Why a dead letter is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A message failed, here or where it came from.
    Died,
    /// Somebody edited an existing dead letter.
    Edited,
}

impl Session {
    /// Writes the row of a dead letter. Returns its id and its cause.
    pub(crate) fn insert_dead(
        &mut self,
        connection: &Connection,
        dying: &Dying<'_>,
        arrival: Arrival,
    ) -> rusqlite::Result<(i64, CauseId)> {
        let Dying { place: (name, queue, seq), message, reason, counts, tries, died_at } = dying;
        let print = Fingerprint::of(name, message, tries, reason);
        let (now, at) = (self.now_millis(), self.arrival_time(connection)?);
        let died_at = died_at.map_or(now, |died_at| died_at.min(now)); // another clock may be ahead
        let (number, cause) = self.causes.cause(connection, *queue, &print, died_at)?;
        let id = connection
            .prepare_cached(
                "INSERT INTO bezoar_dead
                 (queue, seq, reason_code, reason, at, acquired, failed, released, replayed, history,
                  message_id, correlation_id, cause, died_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .insert(params![
                queue,
                seq,
                reason.code().as_str(),
                reason.to_string(),
                at,
                counts.acquired,
                counts.failed,
                counts.released,
                counts.replayed,
                counts.history,
                message.id.as_str(),
                message.correlation_id.as_ref().map(CorrelationId::as_str),
                number,
                died_at,
            ])?;
        self.count(*queue, 0, 1);
        let arrived =
            Arrived { died_at, now, attempts: counts.failed, new: arrival == Arrival::Died };
        self.causes.arrived(number, &arrived);
        if counts.replayed > 0 {
            self.replays.failed_again(connection, *seq, id, &cause)?;
        }
        Ok((id, cause))
    }

    /// The arrival time of a dead letter that is inserted now. It is never before that of the last one, whose
    /// process may have a clock that is ahead: lists and expiry rely on ids and arrival times having the same
    /// order.
    fn arrival_time(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        if let Some(time) = self.arrival {
            return Ok(time);
        }
        let last: Option<i64> = connection
            .prepare_cached("SELECT at FROM bezoar_dead ORDER BY id DESC LIMIT 1")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let time = self.now_millis().max(last.unwrap_or(i64::MIN));
        self.arrival = Some(time);
        Ok(time)
    }

    /// Counts a dead letter that was deleted from its table.
    pub(crate) fn left(&mut self, queue: i64, cause: Option<i64>) {
        self.count(queue, 0, -1);
        if let Some(cause) = cause {
            self.causes.left(cause);
        }
    }
}

//! Counting dead letters per cause.
//!
//! Many transactions add to the same few causes, so a counter in a row would be a lock that all of them wait for. They
//! append to `cause_changes` instead, one row per cause and hour of death, and `cause_totals` adds both tables up. The
//! changes are moved into `causes` from time to time, by whoever gets the advisory lock; every other writer of `causes`
//! waits for that lock. A change says all that is known about its cause, so nobody has to insert a cause first, and a
//! cause that expires at the wrong moment comes back.

use std::collections::BTreeMap;

use bezoar_core::catalogue::{CauseId, FINGERPRINT_VERSION, Fingerprint, HourCounts};
use sqlx::Row;

use crate::catalogue::session::Session;

/// The name of the lock that writers of `causes` hold.
pub(crate) const LOCK: &str = "causes";

/// What a transaction adds to causes.
#[derive(Debug, Default)]
pub(crate) struct CauseChanges {
    /// By cause and by the hour of death: in this order they are written.
    changes: BTreeMap<(String, i64), Change>,
}

#[derive(Debug, Default)]
struct Change {
    /// `None` if dead letters only left.
    group: Option<Group>,
    count: i64,
    bytes: i64,
    ever: i64,
    new: i64,
    attempts: i32,
    first: Option<i64>,
    last: Option<i64>,
}

/// What the dead letters of a cause have in common.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) queue: i32,
    pub(crate) message_type: String,
    pub(crate) kind: String,
    pub(crate) code: String,
}

impl Group {
    pub(crate) fn of(queue: i32, print: &Fingerprint<'_>) -> Self {
        Self {
            queue,
            message_type: print.message_type.as_str().to_owned(),
            kind: print.kind.as_str().to_owned(),
            code: print.code.as_str().to_owned(),
        }
    }
}

/// A dead letter that is added to a cause.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) died_at: i64,
    pub(crate) bytes: i64,
    pub(crate) attempts: i32,
    pub(crate) how: How,
}

/// Why a dead letter is added to a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A message failed, here or where it came from.
    Died,
    /// Somebody edited an existing dead letter.
    Edited,
    /// It was dead before there was a cause, or before the rule changed.
    Grouped,
}

impl CauseChanges {
    pub(crate) fn arrived(&mut self, cause: &CauseId, group: Group, arrived: &Arrived) {
        let hour = HourCounts::hour_of(arrived.died_at);
        let change = self.changes.entry((cause.as_str().to_owned(), hour)).or_default();
        change.group = Some(group);
        change.count += 1;
        change.ever += 1;
        change.bytes += arrived.bytes;
        change.attempts = change.attempts.max(arrived.attempts);
        change.new += i64::from(arrived.how == How::Died);
        let died = Some(arrived.died_at);
        change.first = change.first.min(died).or(died);
        change.last = change.last.max(died);
    }

    pub(crate) fn left(&mut self, cause: Option<String>, bytes: i64) {
        let Some(cause) = cause else { return };
        let change = self.changes.entry((cause, i64::MIN)).or_default();
        change.count -= 1;
        change.bytes -= bytes;
    }

    /// Writes the changes, in one statement.
    pub(crate) async fn append(self, session: &mut Session<'_>) -> sqlx::Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let (keys, changes): (Vec<_>, Vec<_>) = self.changes.into_iter().unzip();
        let (causes, hours): (Vec<String>, Vec<i64>) = keys.into_iter().unzip();
        fn column<T>(changes: &[Change], field: impl Fn(&Change) -> T) -> Vec<T> {
            changes.iter().map(field).collect()
        }
        fn group<T>(changes: &[Change], field: impl Fn(&Group) -> T) -> Vec<Option<T>> {
            changes.iter().map(|it| it.group.as_ref().map(&field)).collect()
        }
        let insert = session
            .query(
                "INSERT INTO {schema}.cause_changes
                 (cause, hour, version, queue, type, kind, code, count, bytes, ever, new, attempts, first_seen, last_seen)
                 SELECT * FROM unnest(
                     $1::text[], $2::bigint[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::text[],
                     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::integer[], $13::bigint[],
                     $14::bigint[])",
            )
            .bind(causes)
            .bind(hours)
            .bind(group(&changes, |_| FINGERPRINT_VERSION.cast_signed()))
            .bind(group(&changes, |it| it.queue))
            .bind(group(&changes, |it| it.message_type.clone()))
            .bind(group(&changes, |it| it.kind.clone()))
            .bind(group(&changes, |it| it.code.clone()))
            .bind(column(&changes, |it| it.count))
            .bind(column(&changes, |it| it.bytes))
            .bind(column(&changes, |it| it.ever))
            .bind(column(&changes, |it| it.new))
            .bind(column(&changes, |it| it.attempts))
            .bind(column(&changes, |it| it.first))
            .bind(column(&changes, |it| it.last));
        session.execute(insert).await.map(drop)
    }
}

/// Moves changes into `causes`, unless somebody else is doing it.
pub(crate) async fn add_up_if_free(session: &mut Session<'_>) -> sqlx::Result<()> {
    let lock = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))";
    let name = format!("bezoar {LOCK} {}", session.database.schema.as_str());
    let lock = session.query(lock).bind(name);
    match session.one(lock).await?.try_get(0)? {
        true => move_changes(session).await,
        false => Ok(()),
    }
}

/// Moves changes into `causes`, and keeps others from writing there until the transaction ends.
pub(crate) async fn add_up(session: &mut Session<'_>) -> sqlx::Result<()> {
    session.lock(LOCK.to_owned()).await?;
    move_changes(session).await
}

/// All that is visible is moved. So a dead letter that left is never moved before it arrived: whoever removed it had
/// seen it.
async fn move_changes(session: &mut Session<'_>) -> sqlx::Result<()> {
    let moved = session
        .query(
            "WITH taken AS MATERIALIZED (
                 DELETE FROM {schema}.cause_changes RETURNING *
             ), summed AS (
                 SELECT cause, max(version) AS version, max(queue) AS queue, max(type) AS type, max(kind) AS kind,
                        max(code) AS code, sum(count)::bigint AS count, sum(bytes)::bigint AS bytes,
                        sum(ever)::bigint AS ever, sum(new)::bigint AS new,
                        coalesce(sum(new) FILTER (WHERE hour >= $1), 0)::bigint AS this_hour,
                        coalesce(sum(new) FILTER (WHERE hour = $1 - 1), 0)::bigint AS last_hour,
                        max(attempts) AS attempts, min(first_seen) AS first_seen, max(last_seen) AS last_seen
                 FROM taken GROUP BY cause
             )
             INSERT INTO {schema}.causes
                 (id, version, queue, type, kind, code, count, bytes, ever, hour, this_hour, last_hour, attempts,
                  first_seen, last_seen, state)
             SELECT s.cause, coalesce(c.version, s.version), coalesce(c.queue, s.queue), coalesce(c.type, s.type),
                    coalesce(c.kind, s.kind), coalesce(c.code, s.code), coalesce(c.count, 0) + s.count,
                    coalesce(c.bytes, 0) + s.bytes, coalesce(c.ever, 0) + s.ever, $1,
                    CASE c.hour WHEN $1 THEN c.this_hour ELSE 0 END + s.this_hour,
                    CASE c.hour WHEN $1 THEN c.last_hour WHEN $1 - 1 THEN c.this_hour ELSE 0 END + s.last_hour,
                    greatest(c.attempts, s.attempts), least(c.first_seen, s.first_seen, $2),
                    coalesce(greatest(c.last_seen, s.last_seen), $2),
                    CASE WHEN c.state = 'resolved' AND s.new > 0 THEN 'regressed' ELSE coalesce(c.state, 'open') END
             FROM summed AS s
             LEFT JOIN LATERAL (SELECT * FROM {schema}.causes AS c WHERE c.id = s.cause OFFSET 0) AS c ON true
             WHERE c.id IS NOT NULL OR s.queue IS NOT NULL
             ON CONFLICT (id) DO UPDATE SET
                 count = excluded.count, bytes = excluded.bytes, ever = excluded.ever, hour = excluded.hour,
                 this_hour = excluded.this_hour, last_hour = excluded.last_hour, attempts = excluded.attempts,
                 first_seen = excluded.first_seen, last_seen = excluded.last_seen, state = excluded.state",
        )
        .bind(HourCounts::hour_of(session.now_millis()))
        .bind(session.now_millis());
    session.execute(moved).await.map(drop)
}

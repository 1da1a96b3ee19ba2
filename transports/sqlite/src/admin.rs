//! Queue administration. Reads use their own connections, so that a long listing does not block the writer.

use async_trait::async_trait;
use bezoar_core::{
    Code, DeadLetter, DeadLetterAccess, DeadLetterId, DeadLetterIds, DeadLetterPage, Depth,
    ErrorKind, Finding, MessageAccess, QueueAdmin, QueueName, Reason, Recognition, Severity,
    TransportError, millis,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    SqliteTransport,
    database_files::{BLOCKED_LOG, LOG_WARNING_BYTES},
    error::{error, from_sqlite, no_queue},
    row,
};

/// How many dead letters are moved in one transaction, so that other jobs can run in between.
const CHUNK: usize = 500;
/// The maximum bytes of bodies on a page of dead letters; the first letter may be of any size.
const PAGE_LIMIT_BYTES: usize = 64 * 1024 * 1024;

#[async_trait]
impl QueueAdmin for SqliteTransport {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        let name = queue.clone();
        let insert = "INSERT INTO bezoar_queues (name) VALUES (?1) ON CONFLICT DO NOTHING";
        self.writer
            .run("provision", move |session, connection| {
                if session.queue(connection, &name)?.is_none() {
                    connection.prepare_cached(insert)?.execute([name.as_str()])?;
                }
                Ok(())
            })
            .await
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        let name = queue.clone();
        let found = self.read("validate", move |connection| find(connection, &name)).await?;
        let problem = format!("there is no queue {queue:?}");
        let missing = Finding::new(Severity::Error, problem, "provision it");
        let bytes = self.files.log_bytes();
        let problem = format!("the write-ahead log has {} MiB", bytes / (1024 * 1024));
        let large_log = Finding::new(Severity::Warning, problem, BLOCKED_LOG);
        let limit = LOG_WARNING_BYTES.min(self.options.max_log_bytes);
        let findings = [(found.is_none(), missing), (bytes > limit, large_log)];
        Ok(findings.into_iter().filter_map(|(holds, finding)| holds.then_some(finding)).collect())
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        self.read("queues", |connection| {
            let mut names =
                connection.prepare_cached("SELECT name FROM bezoar_queues ORDER BY name")?;
            let names: Vec<String> =
                names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(names.iter().filter_map(|name| QueueName::new(name).ok()).collect())
        })
        .await
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        let (name, now) = (queue.clone(), self.options.clock.now().as_millisecond());
        let depth = self.read("depth", move |connection| match find(connection, &name)? {
            Some(queue) => depth(connection, queue, now).map(Some),
            None => Ok(None),
        });
        depth.await?.ok_or_else(|| no_queue(queue, "depth"))
    }

    fn dead_letter_access(&self) -> Option<&dyn DeadLetterAccess> {
        Some(self)
    }

    fn message_access(&self) -> Option<&dyn MessageAccess> {
        Some(self)
    }
}

#[async_trait]
impl DeadLetterAccess for SqliteTransport {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let name = queue.clone();
        let listed = self.read("dead_letters", move |connection| match find(connection, &name)? {
            Some(queue) => dead_letters(connection, &name, queue, page).map(Some),
            None => Ok(None),
        });
        listed.await?.ok_or_else(|| no_queue(queue, "dead_letters"))
    }

    async fn replay(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let mut moved = 0;
        for ids in self.selected(queue, selection, "replay").await?.chunks(CHUNK) {
            let (name, ids) = (queue.clone(), ids.to_vec());
            moved += self
                .writer
                .run("replay", move |session, connection| {
                    match session.queue(connection, &name)? {
                        Some(queue) => session.replay(connection, (&name, queue), &ids),
                        None => Ok(0),
                    }
                })
                .await?;
        }
        Ok(moved)
    }

    async fn discard(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Result<u64, TransportError> {
        let mut removed = 0;
        for ids in self.selected(queue, selection, "discard").await?.chunks(CHUNK) {
            let (name, ids) = (queue.clone(), ids.to_vec());
            removed += self
                .writer
                .run("discard", move |session, connection| {
                    match session.queue(connection, &name)? {
                        Some(queue) => session.discard(connection, queue, &ids),
                        None => Ok(0),
                    }
                })
                .await?;
        }
        Ok(removed)
    }
}

impl SqliteTransport {
    /// Runs `work` on a read connection, in one transaction so that all its statements see the same
    /// data.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, TransportError> {
        let (readers, files) = (self.readers.clone(), self.files.clone());
        let read = move || {
            files.check()?;
            let look = |connection: &mut Connection| {
                connection.transaction().and_then(|transaction| work(&transaction))
            };
            readers.with(look).map_err(|source| from_sqlite(&source, operation))
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|source| error(ErrorKind::Other, operation).with_source(source))?
    }

    /// The ids that a selection contains at this moment.
    async fn selected(
        &self,
        queue: &QueueName,
        selection: &DeadLetterIds,
        operation: &'static str,
    ) -> Result<Vec<DeadLetterId>, TransportError> {
        let (name, selection) = (queue.clone(), selection.clone());
        let selected =
            self.read(operation, move |connection| match (find(connection, &name)?, selection) {
                (None, _) => Ok(None),
                (Some(_), DeadLetterIds::Ids(ids)) => Ok(Some(ids)),
                (Some(queue), DeadLetterIds::All) => connection
                    .prepare_cached("SELECT id FROM bezoar_dead WHERE queue = ?1 ORDER BY id")?
                    .query_map([queue], |row| row.get(0).map(DeadLetterId::from_number))?
                    .collect::<Result<_, _>>()
                    .map(Some),
            });
        selected.await?.ok_or_else(|| no_queue(queue, operation))
    }
}

pub(crate) fn find(connection: &Connection, name: &QueueName) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM bezoar_queues WHERE name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()
}

fn depth(connection: &Connection, queue: i64, now: i64) -> rusqlite::Result<Depth> {
    let (waiting, dead, blocked): (i64, i64, i64) = connection
        .prepare_cached("SELECT waiting, dead, blocked FROM bezoar_queues WHERE id = ?1")?
        .query_row([queue], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    // Only rows that are not visible yet are counted one by one; the rest follows from the counter.
    let (hidden, leased): (i64, i64) = connection
        .prepare_cached(
            "SELECT count(*), count(token) FROM bezoar_waiting WHERE queue = ?1 AND visible_at > ?2",
        )?
        .query_row([queue, now], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let oldest: Option<i64> = connection
        .prepare_cached(
            "SELECT min(visible_at) FROM bezoar_waiting WHERE queue = ?1 AND visible_at <= ?2",
        )?
        .query_row([queue, now], |row| row.get(0))?;
    let oldest_dead: Option<i64> = connection
        .prepare_cached(
            "SELECT min(died_at) FROM (
                 SELECT * FROM (SELECT died_at FROM bezoar_dead WHERE queue = ?1 ORDER BY id LIMIT 1)
                 UNION ALL
                 SELECT min(died_at) FROM bezoar_dead INDEXED BY bezoar_dead_late
                 WHERE queue = ?1 AND died_at < at)",
        )?
        .query_row([queue], |row| row.get(0))?;
    let mut depth = Depth::default();
    depth.ready = Some(at_least_zero(waiting - hidden));
    depth.delayed = Some(at_least_zero(hidden - leased) + at_least_zero(blocked));
    depth.leased = Some(at_least_zero(leased));
    depth.dead = Some(at_least_zero(dead));
    depth.oldest_ready = oldest.map(millis);
    depth.oldest_dead = oldest_dead.map(millis);
    Ok(depth)
}

/// A counter that somebody changed by hand may give a negative difference: that is 0.
fn at_least_zero(count: i64) -> u64 {
    count.max(0).unsigned_abs()
}

fn dead_letters(
    connection: &Connection,
    name: &QueueName,
    queue: i64,
    page: DeadLetterPage,
) -> rusqlite::Result<Vec<DeadLetter>> {
    let after = page.after.map_or(i64::MIN, DeadLetterId::number);
    let mut select = connection.prepare_cached(
        "SELECT d.id, d.seq, d.reason_code, d.reason, d.died_at,
                d.acquired, d.failed, d.released, d.replayed, d.history,
                m.id, m.type, m.correlation_id, m.causation_id, m.content_type, m.headers, m.time, m.body,
                m.checksum, m.expires_at, m.ordering_key
         FROM bezoar_dead AS d JOIN bezoar_messages AS m ON m.seq = d.seq
         WHERE d.queue = ?1 AND d.id > ?2 ORDER BY d.id LIMIT ?3",
    )?;
    let mut rows = select.query(params![queue, after, page.limit.get()])?;
    let mut listed = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let dead = dead_letter(connection, name, row)?;
        bytes += dead.message.body.len();
        if bytes > PAGE_LIMIT_BYTES && !listed.is_empty() {
            break;
        }
        listed.push(dead);
    }
    Ok(listed)
}

fn dead_letter(
    connection: &Connection,
    queue: &QueueName,
    row: &Row<'_>,
) -> rusqlite::Result<DeadLetter> {
    let code = Code::new(row.get::<_, String>(2)?).unwrap_or(Code::UNKNOWN);
    let (message, integrity) = row::message(connection, row, row.get(1)?, 5, 10)?;
    let reason = Reason::new(code, row.get::<_, String>(3)?);
    Ok(DeadLetter {
        id: DeadLetterId::from_number(row.get(0)?),
        queue: queue.clone(),
        message,
        reason: integrity.reported_in(reason),
        at: millis(row.get(4)?),
        recognition: Recognition::Id,
    })
}

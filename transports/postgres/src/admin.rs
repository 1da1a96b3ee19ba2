//! Queue administration and access to dead letters.

use async_trait::async_trait;
use bezoar_core::{
    Code, DeadLetter, DeadLetterAccess, DeadLetterFeed, DeadLetterId, DeadLetterIds,
    DeadLetterPage, Depth, Finding, MessageAccess, QueueAdmin, QueueName, Reason, Recognition,
    Severity, TransportError, millis,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    PostgresTransport,
    database::{Database, Scope},
    error::from_sqlx,
    feed::PostgresFeed,
    row::{self, Integrity},
    send,
};

/// How many dead letters are moved in one transaction, so that it holds its locks for a short time.
const CHUNK: usize = 500;
/// The maximum bytes of bodies on a page of dead letters; the first letter may be of any size.
pub(crate) const PAGE_LIMIT_BYTES: i64 = 64 * 1024 * 1024;

#[async_trait]
impl QueueAdmin for PostgresTransport {
    async fn provision(&self, queue: &QueueName) -> Result<(), TransportError> {
        let name = queue.as_str().to_owned();
        self.database
            .run("provision", Scope::Write, move |database, connection| {
                let query = database.query(&database.sql.add_queue).bind(name.clone());
                Box::pin(async move { query.execute(connection).await.map(drop) })
            })
            .await
    }

    async fn validate(&self, queue: &QueueName) -> Result<Vec<Finding>, TransportError> {
        let problem = format!("there is no queue {queue:?}");
        let missing = || Finding::new(Severity::Error, problem, "provision it");
        Ok(match self.find(queue, "validate").await? {
            Some(_) => Vec::new(),
            None => vec![missing()],
        })
    }

    async fn queues(&self) -> Result<Vec<QueueName>, TransportError> {
        let names = self.database.run("queues", Scope::Read, |database, connection| {
            let query = database.query(&database.sql.list_queues);
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<String>>>()
            })
        });
        Ok(names.await?.iter().filter_map(|name| QueueName::new(name).ok()).collect())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, TransportError> {
        let number = self.number(queue, "depth").await?;
        self.database
            .run("depth", Scope::Read, move |database, connection| {
                let query = database.query(&database.sql.depth).bind(number);
                Box::pin(async move { depth(&query.fetch_one(connection).await?) })
            })
            .await
    }

    fn dead_letter_access(&self) -> Option<&dyn DeadLetterAccess> {
        Some(self)
    }

    fn message_access(&self) -> Option<&dyn MessageAccess> {
        Some(self)
    }

    async fn dead_letter_feed(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        let number = self.number(queue, "dead_letter_feed").await?;
        Ok(Some(Box::new(PostgresFeed::open(self.clone(), queue.clone(), number))))
    }
}

fn depth(row: &PgRow) -> sqlx::Result<Depth> {
    let count = |column: usize| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
    let time =
        |column: usize| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.map(millis));
    let mut depth = Depth::default();
    depth.ready = Some(count(0)?);
    depth.delayed = Some(count(1)?);
    depth.leased = Some(count(2)?);
    depth.dead = Some(count(3)?);
    depth.oldest_ready = time(4)?;
    depth.oldest_dead = time(5)?;
    Ok(depth)
}

#[async_trait]
impl DeadLetterAccess for PostgresTransport {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        page: DeadLetterPage,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let number = self.number(queue, "dead_letters").await?;
        let after = page.after.map_or(i64::MIN, DeadLetterId::number);
        let limit = i64::from(page.limit.get());
        let rows = self.database.run("dead_letters", Scope::Read, move |database, connection| {
            let query = database.query(&database.sql.dead_letters);
            let query = query.bind(number).bind(after).bind(limit).bind(PAGE_LIMIT_BYTES);
            Box::pin(async move { query.fetch_all(connection).await })
        });
        read_dead_letters(queue, &rows.await?, "dead_letters")
    }

    async fn replay(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError> {
        let number = self.number(queue, "replay").await?;
        let moved = self.in_chunks(number, ids, Move::Replay).await;
        self.wakes.wake(number);
        moved
    }

    async fn discard(&self, queue: &QueueName, ids: &DeadLetterIds) -> Result<u64, TransportError> {
        let number = self.number(queue, "discard").await?;
        self.in_chunks(number, ids, Move::Discard).await
    }
}

/// Where dead letters go.
#[derive(Debug, Clone, Copy)]
enum Move {
    Replay,
    Discard,
}

impl Move {
    const fn operation(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Discard => "discard",
        }
    }
}

impl PostgresTransport {
    /// Moves a selection, one chunk after the other. All means all that were there when it began.
    async fn in_chunks(
        &self,
        queue: i32,
        ids: &DeadLetterIds,
        to: Move,
    ) -> Result<u64, TransportError> {
        let mut moved = 0;
        match ids {
            DeadLetterIds::Ids(ids) => {
                for ids in ids.chunks(CHUNK) {
                    let ids = ids.iter().map(|id| id.number()).collect();
                    moved += self.move_some(queue, Some(ids), i64::MAX, to).await?;
                }
            }
            DeadLetterIds::All => {
                let last = self.last_dead(queue, to.operation()).await?;
                loop {
                    match self.move_some(queue, None, last, to).await? {
                        0 => break,
                        some => moved += some,
                    }
                }
            }
        }
        Ok(moved)
    }

    async fn last_dead(&self, queue: i32, operation: &'static str) -> Result<i64, TransportError> {
        self.database
            .run(operation, Scope::Read, move |database, connection| {
                let query = database.query(&database.sql.last_dead).bind(queue);
                Box::pin(async move { query.fetch_one(connection).await?.try_get(0) })
            })
            .await
    }

    /// Moves up to a chunk of dead letters with ids up to `last`.
    async fn move_some(
        &self,
        queue: i32,
        ids: Option<Vec<i64>>,
        last: i64,
        to: Move,
    ) -> Result<u64, TransportError> {
        self.database
            .run(to.operation(), Scope::Transaction, move |database, connection| {
                let ids = ids.clone();
                Box::pin(async move {
                    let taken = take(database, connection, queue, (ids, last), to).await?;
                    match to {
                        Move::Replay => replay(database, connection, queue, taken).await,
                        Move::Discard => {
                            let ids: Vec<i64> = taken.into_iter().map(|(id, _)| id).collect();
                            discard(database, connection, queue, (ids, None)).await
                        }
                    }
                })
            })
            .await
    }
}

/// A dead letter's id and its ordering key.
type Taken = (i64, Option<String>);

/// Locks dead letters that no operation holds. Those that are edited or not approved can only be discarded.
async fn take(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    (ids, last): (Option<Vec<i64>>, i64),
    to: Move,
) -> sqlx::Result<Vec<Taken>> {
    let whatever = matches!(to, Move::Discard);
    let lock = database.query(&database.sql.lock_dead);
    let lock = lock.bind(queue).bind(ids).bind(last).bind(CHUNK as i64).bind(whatever);
    let rows = lock.fetch_all(&mut *connection).await?;
    let locked: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
    let take = database.query(&database.sql.take_dead).bind(locked).bind(whatever);
    let rows = take.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Replays dead letters that are locked; those with an ordering key join at its end.
async fn replay(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    taken: Vec<Taken>,
) -> sqlx::Result<u64> {
    let mut keys: Vec<String> = taken.iter().filter_map(|(_, key)| key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    let queues = vec![queue; keys.len()];
    let mut free = send::hold(database, connection, queues, keys).await?;
    let is_blocked =
        |(_, key): &Taken| key.as_ref().is_some_and(|key| !free.remove(&(queue, key.clone())));
    let blocked: Vec<bool> = taken.iter().map(is_blocked).collect();
    let (ids, keys): (Vec<i64>, Vec<Option<String>>) = taken.into_iter().unzip();
    let query = database.query(&database.sql.replay);
    let query = query.bind(queue).bind(ids).bind(blocked).bind(keys);
    Ok(query.fetch_one(connection).await?.try_get::<i64, _>(0)?.unsigned_abs())
}

/// Removes dead letters, only those that a feed has handed out if there is one.
pub(crate) async fn discard(
    database: &Database,
    connection: &mut PgConnection,
    queue: i32,
    (ids, feed): (Vec<i64>, Option<i64>),
) -> sqlx::Result<u64> {
    let query = database.query(&database.sql.discard).bind(queue).bind(ids).bind(feed);
    Ok(query.fetch_one(connection).await?.try_get::<i64, _>(0)?.unsigned_abs())
}

pub(crate) fn read_dead_letters(
    queue: &QueueName,
    rows: &[PgRow],
    operation: &'static str,
) -> Result<Vec<DeadLetter>, TransportError> {
    let letters = rows.iter().map(|row| dead_letter(queue, row)).collect::<sqlx::Result<_>>();
    letters.map_err(|source| from_sqlx(&source, operation))
}

fn dead_letter(queue: &QueueName, row: &PgRow) -> sqlx::Result<DeadLetter> {
    let (message, integrity) = row::message(row, row.try_get(1)?, 5)?;
    let code = Code::new(row.try_get::<String, _>(2)?).unwrap_or(Code::UNKNOWN);
    let reason = Reason::new(code, row.try_get::<String, _>(3)?);
    Ok(DeadLetter {
        id: DeadLetterId::from_number(row.try_get(0)?),
        queue: queue.clone(),
        message,
        reason: if integrity == Integrity::Intact { reason } else { Reason::undecodable() },
        at: millis(row.try_get(4)?),
        recognition: Recognition::Id,
    })
}

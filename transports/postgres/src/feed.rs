//! Dead letters in the order of their ids, for those who move them elsewhere.
//!
//! A letter that a feed hands out is kept from other feeds for a while. It stays in the table until it is removed.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterFeed, DeadLetterId, ErrorKind, MAX_DELAY, Message, Outgoing, QueueName,
    Transport, TransportError,
};
use rand::RngExt;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    PostgresTransport,
    admin::{PAGE_LIMIT_BYTES, discard, read_dead_letters},
    database::{Database, Scope},
    error::error,
};

/// For how long a letter is kept from other feeds. A feed that is dropped gives its letters back at once.
const HELD_MS: i64 = 5 * 60 * 1_000;
/// How often to look for new letters.
const POLL: Duration = Duration::from_millis(200);

/// The dead letters of one queue.
#[derive(Debug)]
pub(crate) struct PostgresFeed {
    transport: PostgresTransport,
    queue: QueueName,
    held: Held,
}

impl PostgresFeed {
    pub(crate) fn open(transport: PostgresTransport, queue: QueueName, number: i32) -> Self {
        let held = Held { database: transport.database.clone(), number, id: rand::rng().random() };
        Self { transport, queue, held }
    }

    /// In a task of its own, so that letters whose receiver is gone are dropped with the answer, and so given back.
    async fn hand_out(&self, max: NonZeroU32) -> Result<Vec<DeadLetter>, TransportError> {
        let (feed, queue, max) = (self.held.clone(), self.queue.clone(), i64::from(max.get()));
        let task = tokio::spawn(async move {
            let Held { number, id, .. } = feed;
            let rows = feed
                .database
                .run_here("dead_letter_feed", Scope::Read, &move |database, connection| {
                    let query = database.query(&database.sql.feed_next).bind(number).bind(id);
                    let query = query.bind(max).bind(PAGE_LIMIT_BYTES).bind(HELD_MS);
                    Box::pin(async move { query.fetch_all(connection).await })
                })
                .await?;
            let letters = read_dead_letters(&queue, &rows, "dead_letter_feed")?;
            Ok(HandedOut { letters, held: feed })
        });
        let ended = |_| Err(error(ErrorKind::Other, "dead_letter_feed"));
        let mut handed_out: HandedOut = task.await.unwrap_or_else(ended)?;
        Ok(std::mem::take(&mut handed_out.letters))
    }
}

/// Which feed has letters.
#[derive(Debug, Clone)]
struct Held {
    database: Arc<Database>,
    number: i32,
    id: i64,
}

impl Held {
    /// Gives letters back, or all. If that fails, they are free again after a while.
    fn give_back(&self, ids: Option<Vec<i64>>) {
        let held = self.clone();
        let give_back = async move {
            let Held { number, id, .. } = held;
            held.database
                .run_here("dead_letter_feed", Scope::Write, &move |database, connection| {
                    let query = database.query(&database.sql.feed_release);
                    let query = query.bind(number).bind(id).bind(ids.clone());
                    Box::pin(async move { query.execute(connection).await })
                })
                .await
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(give_back);
        }
    }
}

/// Letters that are given back if they are dropped.
#[derive(Debug)]
struct HandedOut {
    letters: Vec<DeadLetter>,
    held: Held,
}

impl Drop for HandedOut {
    fn drop(&mut self) {
        if !self.letters.is_empty() {
            self.held.give_back(Some(self.letters.iter().map(|it| it.id.number()).collect()));
        }
    }
}

#[async_trait]
impl DeadLetterFeed for PostgresFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        loop {
            let letters = self.hand_out(max).await?;
            if !letters.is_empty() || timeout_at(deadline, sleep(POLL)).await.is_err() {
                return Ok(letters);
            }
        }
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        let ids: Vec<i64> = letters.iter().map(|id| id.number()).collect();
        let (queue, feed) = (self.held.number, self.held.id);
        let database = &self.transport.database;
        database
            .run("dead_letter_feed", Scope::Write, move |database, connection| {
                let ids = (ids.clone(), Some(feed));
                Box::pin(async move { discard(database, connection, queue, ids).await.map(drop) })
            })
            .await
    }

    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>> {
        let messages: Vec<_> = messages.iter().cloned().map(Outgoing::from).collect();
        let sent = self.transport.send(&(&self.queue).into(), &messages).await;
        sent.into_iter().map(|result| result.map(drop)).collect()
    }
}

impl Drop for PostgresFeed {
    fn drop(&mut self) {
        self.held.give_back(None);
    }
}

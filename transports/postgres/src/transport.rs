//! Sending, and opening queues.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, ByteLimit, Capabilities, Counting, Destination, MAX_DELAY, Outgoing, QueueName,
    SettlementDurability, SubscribeOptions, Subscription, Transport, TransportError,
};
use sqlx::Row;
use tokio::sync::watch;

use crate::{
    Options,
    database::{Database, Scope},
    error::{TRANSPORT, no_queue},
    group_sender::GroupSender,
    leader::Fence,
    schema::{self, SchemaState},
    subscription::PostgresSubscription,
    wakes::{self, Wakes},
};

/// The maximum number of messages of a batch that are stored in one transaction.
const PART_LIMIT: usize = 1_000;
/// The maximum bytes of bodies of a batch that are stored in one transaction; the first message may be of any size.
const PART_LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// Queues in a PostgreSQL database. Cheap to clone: all clones share their connections.
#[derive(Debug, Clone)]
pub struct PostgresTransport {
    pub(crate) database: Arc<Database>,
    pub(crate) wakes: Wakes,
    sender: Arc<GroupSender>,
    queues: Arc<Mutex<HashMap<QueueName, i32>>>,
    /// What this handle may change only while it holds.
    pub(crate) fence: Option<Fence>,
    /// Ends the tasks that notify and listen when the last clone is dropped.
    _running: Arc<watch::Sender<()>>,
}

impl PostgresTransport {
    /// Checks the options. Connects on first use, and then creates or upgrades the schema, if
    /// [`migrate`](Options::migrate) is on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](bezoar_core::ErrorKind::Invalid) for options that cannot be used.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn open(options: Options) -> Result<Self, TransportError> {
        let database = Database::open(options)?;
        let (wakes, (running, stop)) = (Wakes::default(), watch::channel(()));
        wakes::start(&database, &wakes, stop);
        let sender = Arc::new(GroupSender::start(&database, &wakes));
        let _running = Arc::new(running);
        Ok(Self { database, wakes, sender, queues: Arc::default(), fence: None, _running })
    }

    /// Connects and looks whether the database can be used. Changes nothing: a schema that is missing or older is
    /// created or upgraded on first use.
    ///
    /// # Errors
    ///
    /// With what is wrong, and what to do about it.
    pub async fn examine(&self) -> Result<SchemaState, TransportError> {
        self.database.examine().await
    }

    /// The SQL that creates the schema and these queues, for an administrator.
    pub fn plan(&self, queues: &[QueueName]) -> String {
        schema::plan(&self.database.options.schema, queues)
    }

    /// The same, except that it changes the catalogue only while a fence holds.
    pub(crate) fn fenced_by(&self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// Closes all connections. Work that has begun is finished.
    pub async fn close(&self) {
        self.database.close().await;
    }

    /// The number of a queue, if it exists. Queues are never removed.
    pub(crate) async fn find(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Option<i32>, TransportError> {
        let known = self.queues.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied();
        if known.is_some() {
            return Ok(known);
        }
        let name = queue.as_str().to_owned();
        let find = self.database.run(operation, Scope::Read, move |database, connection| {
            let query = database.query(&database.sql.find_queue).bind(name.clone());
            Box::pin(async move {
                query.fetch_optional(connection).await?.map(|row| row.try_get(0)).transpose()
            })
        });
        let found = find.await?;
        if let Some(number) = found {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            queues.insert(queue.clone(), number);
        }
        Ok(found)
    }

    /// The number of a queue that must exist.
    pub(crate) async fn number(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<i32, TransportError> {
        self.find(queue, operation).await?.ok_or_else(|| no_queue(queue, operation))
    }
}

#[async_trait]
impl Transport for PostgresTransport {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::new(TRANSPORT, self.database.options.max_message_bytes);
        can.ordering = true;
        can.ordering_keys = true;
        can.scheduled = Some(MAX_DELAY);
        can.time_to_live = true;
        can.batching = true;
        can.durable = true;
        can.fencing = true;
        can.settlement = SettlementDurability::Durable;
        can.acquired = Counting::Exact;
        can.single_copy = true;
        can.deduplication = true;
        can.wakes = true;
        can.knows_depth = true;
        can.knows_ages = true;
        can.dead_letter_access = true;
        can.dead_letter_feed = true;
        can.message_access = true;
        can
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (queue, mut results) = match self.capabilities().check_batch(to, batch) {
            Ok(checked) => checked,
            Err(refused) => return refused,
        };
        let accepted = batch.iter().zip(&results).filter(|(_, checked)| checked.is_ok());
        let mut accepted: Vec<_> = accepted.map(|(outgoing, _)| outgoing.clone()).collect();
        if accepted.is_empty() {
            return results;
        }
        let number = self.number(queue, "send").await;
        let mut open = results.iter_mut().filter(|checked| checked.is_ok());
        while !accepted.is_empty() {
            let later = accepted.split_off(part_end(&accepted));
            let part = std::mem::replace(&mut accepted, later);
            let sent = match &number {
                Ok(number) => self.sender.send(*number, part).await,
                Err(failed) => part.iter().map(|_| Err(failed.again())).collect(),
            };
            open.by_ref().zip(sent).for_each(|(result, sent)| *result = sent);
        }
        results
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        let number = self.number(queue, "subscribe").await?;
        Ok(Box::new(PostgresSubscription::new(self, queue.clone(), number, options)))
    }
}

/// The end of the first part of a batch that is stored in one transaction.
fn part_end(batch: &[Outgoing]) -> usize {
    let mut limit = ByteLimit::new(PART_LIMIT_BYTES);
    batch.iter().take(PART_LIMIT).take_while(|it| limit.admits(it.message.body.len())).count()
}

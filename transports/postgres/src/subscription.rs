//! An open queue: receiving, renewing, and waiting for messages.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Delivery, ErrorKind, MAX_DELAY, QueueName, Receipt, Settlement, SubscribeOptions, Subscription,
    TransportError, millis, to_millis,
};
use sqlx::Row;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    PostgresTransport,
    claim::{Found, claim},
    database::{Database, Scope},
    error::error,
    settle,
    wakes::Wakes,
};

/// How soon to look again while others are claiming what is due.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The longest lease: the default of the contract.
const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct PostgresSubscription {
    database: Arc<Database>,
    wakes: Wakes,
    name: QueueName,
    queue: i32,
    options: SubscribeOptions,
}

/// The row and the token of a lease.
pub(crate) fn lease_of(delivery: &Delivery) -> Option<(i64, i64)> {
    delivery.receipt.numbers().map(|[seq, token, _]| (seq, token))
}

pub(crate) fn receipt(seq: i64, token: i64) -> Receipt {
    Receipt::from_numbers([seq, token, 0])
}

impl PostgresSubscription {
    pub(crate) fn new(
        transport: &PostgresTransport,
        name: QueueName,
        queue: i32,
        options: SubscribeOptions,
    ) -> Self {
        let (database, wakes) = (transport.database.clone(), transport.wakes.clone());
        Self { database, wakes, name, queue, options }
    }

    /// How long until a message can be claimed, as far as it is known.
    async fn pause(&self) -> Result<Duration, TransportError> {
        let queue = self.queue;
        let next = self.database.run("receive", Scope::Read, move |database, connection| {
            let query = database.query(&database.sql.next_due).bind(queue);
            Box::pin(async move { query.fetch_one(connection).await?.try_get::<Option<i64>, _>(0) })
        });
        let poll = self.database.options.poll;
        let until_due = |due_ms: i64| Duration::from_millis(due_ms.max(0).unsigned_abs());
        Ok(next.await?.map_or(poll, until_due).clamp(SHORTEST_PAUSE.min(poll), poll))
    }
}

#[async_trait]
impl Subscription for PostgresSubscription {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let deadline = Instant::now() + wait.min(MAX_DELAY);
        let signal = self.wakes.of(self.queue);
        loop {
            // Subscribes to the signal before the query, so that no message sent in between is missed.
            let mut woken = std::pin::pin!(signal.notified());
            woken.as_mut().enable();
            let queue = (&self.name, self.queue);
            let found: Found =
                claim(&self.database, &self.wakes, queue, max, &self.options).await?;
            if !found.is_empty() {
                return Ok(found.hand_over());
            }
            if found.set_aside > 0 {
                continue;
            }
            let waiting = async {
                let pause = self.pause().await?;
                tokio::select! { biased; () = woken => (), () = sleep(pause) => () }
                Ok(())
            };
            match timeout_at(deadline, waiting).await {
                Err(_) => return Ok(Vec::new()),
                Ok(waited) => waited?,
            }
        }
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        settle::settle(&self.database, &self.wakes, (&self.name, self.queue), batch).await
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        if deliveries.is_empty() {
            return Vec::new();
        }
        let (queue, lease_ms) = (self.queue, to_millis(lease.min(LONGEST_LEASE)));
        // In the order of rows, so that two renewals never wait for each other.
        let mut held: Vec<_> = deliveries.iter().filter_map(lease_of).collect();
        held.sort_unstable();
        let (seqs, tokens): (Vec<i64>, Vec<i64>) = held.into_iter().unzip();
        let extended = self.database.run("extend", Scope::Write, move |database, connection| {
            let query = database.query(&database.sql.extend);
            let query = query.bind(seqs.clone()).bind(tokens.clone()).bind(queue).bind(lease_ms);
            Box::pin(async move {
                let rows = query.fetch_all(connection).await?;
                let end = |row: &sqlx::postgres::PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
                rows.iter().map(end).collect::<sqlx::Result<HashMap<i64, i64>>>()
            })
        });
        let ends = match extended.await {
            Ok(ends) => ends,
            Err(failed) => return deliveries.iter().map(|_| Err(failed.again())).collect(),
        };
        let renew = |delivery: &mut Delivery| {
            let end = lease_of(delivery).and_then(|(seq, _)| ends.get(&seq));
            let end = end.ok_or_else(|| error(ErrorKind::LeaseLost, "extend"))?;
            delivery.lease_until = Some(millis(*end));
            Ok(())
        };
        deliveries.iter_mut().map(renew).collect()
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        Ok(())
    }
}

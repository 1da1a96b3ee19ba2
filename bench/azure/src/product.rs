//! The same work through `bezoar`: send, receive, complete, with a subscription for each loop, as fetch loops have.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use anyhow::Result;
use bench_support::Measurement;
use bezoar::azure::{AzureTransport, Options};
use bezoar::{
    Body, Clock as _, Destination, Message, MessageId, MessageType, Outgoing, QueueAdmin as _,
    QueueName, Settlement, SubscribeOptions, Subscription, SystemClock, Transport as _,
};
use futures_util::future::try_join_all;
use tokio::time::Instant;

use crate::{BODY, CONCURRENCY, rate, server::Server};

pub(crate) const NAME: &str = "bezoar";

const QUEUE: &str = "bench-bezoar";

pub(crate) async fn measure(server: &Server, count: u64) -> Result<Measurement> {
    let transport = AzureTransport::open(Options::new(server.connection_string().parse()?))?;
    let queue = QueueName::new(QUEUE)?;
    transport.provision(&queue).await?;
    let mut subscriptions = Vec::new();
    for _ in 0..CONCURRENCY {
        subscriptions.push(transport.subscribe(&queue, SubscribeOptions::default()).await?);
    }
    let started = Instant::now();
    let transport = Arc::new(transport);
    let loops = subscriptions.into_iter().map(|subscription| {
        let (transport, queue) = (transport.clone(), queue.clone());
        tokio::spawn(work(transport, queue, subscription, count / CONCURRENCY))
    });
    for ended in try_join_all(loops).await? {
        ended?;
    }
    Ok(rate(&server.row(NAME), count, started))
}

async fn work(
    transport: Arc<AzureTransport>,
    queue: QueueName,
    subscription: Box<dyn Subscription>,
    count: u64,
) -> Result<()> {
    let to = Destination::Queue(queue);
    for _ in 0..count {
        for sent in transport.send(&to, &[message()?]).await {
            sent?;
        }
        let received = loop {
            let received = subscription.receive(NonZeroU32::MIN, Duration::ZERO).await?;
            if !received.is_empty() {
                break received;
            }
        };
        let completed = received.into_iter().map(|delivery| (delivery, Settlement::Complete));
        for settled in subscription.settle(completed.collect()).await {
            settled?;
        }
    }
    subscription.close().await?;
    Ok(())
}

fn message() -> Result<Outgoing> {
    let now = SystemClock.now();
    let id = MessageId::generate(now, &mut rand::rng());
    let message = Message::new(id, MessageType::new("nothing")?, now, Body::from(BODY.to_vec()));
    Ok(message.into())
}

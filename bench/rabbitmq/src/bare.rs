//! The limit: what a bare lapin program reaches with the same durability and prefetch, and nothing else.
//!
//! Confirms are pipelined, a window of a thousand; acknowledgements are coalesced, one `multiple` for whatever
//! has arrived. No ledger, no reason, no routes, no spans.

use anyhow::{Result, bail, ensure};
use bench_support::Measurement;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lapin::{
    BasicProperties, Channel, Confirmation,
    message::Delivery,
    options::{BasicAckOptions, BasicPublishOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::time::Instant;

use crate::{
    broker::{BODY, Bare, PREFETCH, properties, text},
    failing::{DELAY, RETRIES},
    rate,
};

pub(crate) const PUBLISH: &str = "limit: publish with confirms";
pub(crate) const CONSUME: &str = "limit: consume, acknowledge together";
pub(crate) const FAIL: &str = "limit: fail, wait twice, set aside";

/// How many publications may be without a confirm.
pub(crate) const WINDOW: usize = 1_000;

const QUEUE: &str = "bare";
const WAITING: &str = "bare.waiting";
const DEAD: &str = "bare.dead";
const TRIED: &str = "tried";

/// Publishes so many to a queue.
pub(crate) async fn publish(url: &str, queue: &str, count: u64) -> Result<Measurement> {
    publish_bodies(url, queue, count, &BODY).await
}

/// Publishes the same body so many times.
pub(crate) async fn publish_bodies(
    url: &str,
    queue: &str,
    count: u64,
    body: &[u8],
) -> Result<Measurement> {
    let bare = Bare::connect(url).await?;
    let channel = bare.confirming().await?;
    let started = Instant::now();
    let publishing = stream::iter(0..count)
        .map(|number| store(&channel, queue, body, properties(number)))
        .buffer_unordered(WINDOW);
    publishing.try_collect::<()>().await?;
    let measured = rate(PUBLISH, count, started);
    bare.close().await;
    Ok(measured)
}

/// Publishes one; done when it is stored and was not returned.
pub(crate) async fn store(
    channel: &Channel,
    queue: &str,
    body: &[u8],
    properties: BasicProperties,
) -> Result<()> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirm = channel.basic_publish("".into(), queue.into(), options, body, properties).await?;
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => bail!("not stored: {other:?}"),
    }
}

/// Takes what is in a queue, does nothing, and acknowledges it.
pub(crate) async fn consume(url: &str, queue: &str, count: u64) -> Result<Measurement> {
    let bare = Bare::connect(url).await?;
    let started = Instant::now();
    let (channel, consumer) = bare.consume(queue).await?;
    let mut left = count;
    let mut chunks = consumer.ready_chunks(PREFETCH.into());
    while left > 0 {
        let chunk: Vec<Delivery> =
            chunks.next().await.into_iter().flatten().collect::<lapin::Result<_>>()?;
        left -= chunk.len() as u64;
        acknowledge(&channel, &chunk).await?;
    }
    let measured = rate(CONSUME, count, started);
    bare.until_ready(queue, 0).await?;
    bare.close().await;
    Ok(measured)
}

async fn acknowledge(channel: &Channel, chunk: &[Delivery]) -> Result<()> {
    if let Some(last) = chunk.last() {
        channel.basic_ack(last.delivery_tag, BasicAckOptions { multiple: true }).await?;
    }
    Ok(())
}

/// Fails every attempt: a copy waits in a queue with a time to live, the last one is set aside.
pub(crate) async fn fail(url: &str, count: u64) -> Result<Measurement> {
    publish_fresh(url, count).await?;
    let bare = Bare::connect(url).await?;
    let confirming = bare.confirming().await?;
    let started = Instant::now();
    let (channel, consumer) = bare.consume(QUEUE).await?;
    let mut left = count * u64::from(RETRIES + 1);
    let mut chunks = consumer.ready_chunks(PREFETCH.into());
    while left > 0 {
        let chunk: Vec<Delivery> =
            chunks.next().await.into_iter().flatten().collect::<lapin::Result<_>>()?;
        ensure!(!chunk.is_empty(), "the broker stopped sending");
        left -= chunk.len() as u64;
        let copies = stream::iter(&chunk).map(|delivery| pass_on(&confirming, delivery));
        copies.buffer_unordered(WINDOW).try_collect::<()>().await?;
        acknowledge(&channel, &chunk).await?;
    }
    bare.until_ready(DEAD, count).await?;
    let measured = rate(FAIL, count, started);
    bare.delete(&[QUEUE, WAITING, DEAD]).await?;
    bare.close().await;
    Ok(measured)
}

async fn publish_fresh(url: &str, count: u64) -> Result<()> {
    let bare = Bare::connect(url).await?;
    let time_to_live = AMQPValue::LongLongInt(i64::try_from(DELAY.as_millis())?);
    bare.fresh(QUEUE, &[]).await?;
    bare.fresh(DEAD, &[]).await?;
    let waiting = [
        ("x-message-ttl", time_to_live),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(QUEUE)),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-overflow", text("reject-publish")),
    ];
    bare.fresh(WAITING, &waiting).await?;
    bare.close().await;
    publish(url, QUEUE, count).await.map(drop)
}

/// To the queue where it waits, or to where it stays.
async fn pass_on(channel: &Channel, delivery: &Delivery) -> Result<()> {
    let headers = delivery.properties.headers().as_ref();
    let tried = headers.and_then(|headers| headers.inner().get(TRIED)?.as_long_int());
    let tried = tried.unwrap_or(0) + 1;
    let mut headers = FieldTable::default();
    headers.insert(TRIED.into(), AMQPValue::LongInt(tried));
    let to = if tried > i32::try_from(RETRIES)? { DEAD } else { WAITING };
    let properties = delivery.properties.clone().with_headers(headers);
    store(channel, to, &delivery.data, properties).await
}

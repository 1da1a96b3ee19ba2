//! Queues on RabbitMQ through `bezoar`: publishing, a worker that does nothing, a worker that always fails.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use bench_support::Measurement;
use bezoar::rabbitmq::{DeadLettering, Options, RabbitTransport};
use bezoar::{
    Backoff, Bezoar, Body, Clock as _, Destination, Failure, Jitter, Message, MessageId,
    MessageType, Outgoing, QueueName, RetryPolicy, Router, Shutdown, State, SystemClock, Worker,
};
use tokio::time::Instant;

use crate::{
    bare::WINDOW,
    broker::{BODY, Bare, PREFETCH, TYPE},
    failing::{DELAY, RETRIES},
    rate,
};

pub(crate) const PUBLISH: &str = "bezoar: publish with confirms";
pub(crate) const CONSUME: &str = "bezoar: worker that does nothing";
pub(crate) const FAIL: &str = "bezoar: worker that fails, retries twice, sets aside";

const QUEUE: &str = "bezoar-bench";
const DEAD: &str = "bezoar-bench.dead";
/// Together they have as many publications without a confirm as the bare program has.
const PRODUCERS: u64 = 4;

/// A transport, and queues on it.
#[derive(Debug)]
pub(crate) struct Product {
    transport: RabbitTransport,
    pub(crate) bezoar: Bezoar,
}

impl Product {
    pub(crate) fn open(url: &str, dead_lettering: DeadLettering) -> Result<Self> {
        let options = Options { dead_lettering, ..Options::from_url(url)? };
        let transport = RabbitTransport::open(options)?;
        Ok(Self { bezoar: Bezoar::new(transport.clone()), transport })
    }

    pub(crate) async fn close(self) {
        self.transport.close().await;
    }
}

/// Publishes so many to a queue of its own, which is removed.
pub(crate) async fn publish(url: &str, count: u64) -> Result<Measurement> {
    let product = Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(QUEUE).await?;
    let started = Instant::now();
    publish_all(&product.bezoar, count).await?;
    let measured = rate(PUBLISH, count, started);
    product.close().await;
    let bare = Bare::connect(url).await?;
    bare.until_ready(QUEUE, count).await?;
    bare.delete(&[QUEUE, DEAD]).await?;
    bare.close().await;
    Ok(measured)
}

async fn publish_all(bezoar: &Bezoar, count: u64) -> Result<()> {
    let producing =
        (0..PRODUCERS).map(|_| tokio::spawn(produce(bezoar.clone(), count / PRODUCERS)));
    for produced in producing.collect::<Vec<_>>() {
        produced.await??;
    }
    Ok(())
}

async fn produce(bezoar: Bezoar, count: u64) -> Result<()> {
    let queue = Destination::Queue(QueueName::new(QUEUE)?);
    let most = WINDOW as u64 / PRODUCERS;
    let mut left = count;
    while left > 0 {
        let batch: Vec<Outgoing> = (0..left.min(most))
            .map(|_| message(BODY.to_vec()).map(Outgoing::from))
            .collect::<Result<_>>()?;
        left -= batch.len() as u64;
        for sent in bezoar.transport().send(&queue, &batch).await {
            sent?;
        }
    }
    Ok(())
}

/// A message of ours.
pub(crate) fn message(body: Vec<u8>) -> Result<Message> {
    let now = SystemClock.now();
    let id = MessageId::generate(now, &mut rand::rng());
    Ok(Message::new(id, MessageType::new(TYPE)?, now, Body::from(body)))
}

/// Works through what is in a queue.
pub(crate) async fn consume(url: &str, queue: &str, count: u64) -> Result<Measurement> {
    let product = Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(queue).await?;
    let started = Instant::now();
    work(&product.bezoar, queue, count, |router| router.on(TYPE, nothing)).await?;
    let measured = rate(CONSUME, count, started);
    let depth = product.bezoar.admin().depth(&QueueName::new(queue)?).await?;
    ensure!(depth.ready == Some(0) && depth.dead == Some(0), "left over: {depth:?}");
    product.close().await;
    Ok(measured)
}

/// Fails every attempt of so many messages, until all are set aside.
pub(crate) async fn fail(url: &str, count: u64) -> Result<Measurement> {
    let product = Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(QUEUE).await?;
    let bare = Bare::connect(url).await?;
    crate::bare::publish(url, QUEUE, count).await?;
    let started = Instant::now();
    let attempts = count * u64::from(RETRIES + 1);
    work(&product.bezoar, QUEUE, attempts, |router| router.on(TYPE, refuse)).await?;
    bare.until_ready(DEAD, count).await?;
    let measured = rate(FAIL, count, started);
    product.close().await;
    bare.delete(&[QUEUE, DEAD]).await?;
    bare.close().await;
    Ok(measured)
}

/// Runs a worker until its handler was called so many times.
async fn work(
    bezoar: &Bezoar,
    queue: &str,
    calls: u64,
    on: impl FnOnce(Router<Tally>) -> Router<Tally>,
) -> Result<()> {
    let tally = Tally { left: Arc::new(AtomicU64::new(calls)), shutdown: Shutdown::default() };
    let policy = RetryPolicy::new(RETRIES, Backoff::Fixed { delay: DELAY }, DELAY, Jitter::None)?;
    // Not the log: who sets everything aside would mostly write lines about it.
    let worker = Worker::new(queue, on(Router::with_state(tally.clone())))?
        .policy(policy)
        .concurrency(u32::from(PREFETCH) / 2)
        .without_observers();
    bezoar.run_until(worker, tally.shutdown).await?;
    Ok(())
}

#[derive(Debug, Clone)]
struct Tally {
    left: Arc<AtomicU64>,
    shutdown: Shutdown,
}

impl Tally {
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shutdown.drain();
        }
    }
}

async fn nothing(State(tally): State<Tally>) {
    tally.count();
}

async fn refuse(State(tally): State<Tally>) -> Result<(), Failure> {
    tally.count();
    Err(Failure::transient("no patient 17"))
}

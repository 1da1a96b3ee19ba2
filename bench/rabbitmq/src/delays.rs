//! Many messages with random delays: is none early, and how late are they?

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::rabbitmq::DeadLettering;
use bezoar::{Context, Destination, Outgoing, QueueName, Router, Shutdown, State, Worker};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::interval;

use crate::{
    broker::{Bare, PREFETCH, TYPE},
    product::{Product, message},
    stopwatch::{Stopwatch, numbered},
};

const QUEUE: &str = "delayed";
const DEAD: &str = "delayed.dead";
const LONGEST: Duration = Duration::from_secs(60);
const BATCH: usize = 500;
/// 5,000 a second: what is to come while the broker can do no more than take messages in is late whoever delays it.
const PACE: Duration = Duration::from_millis(100);
const SEED: u64 = 7;

/// What was seen of all messages.
#[derive(Debug)]
pub(crate) struct Seen {
    /// How many were there before their time.
    pub(crate) early: u64,
    /// The share that was within 250 ms or 5 % of its time.
    pub(crate) in_time: f64,
    /// In milliseconds.
    pub(crate) latest: f64,
}

/// Sends so many, and waits for all.
pub(crate) async fn measure(url: &str, count: u64) -> Result<Seen> {
    let product = Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(QUEUE).await?;
    let watch = Arc::new(Stopwatch::new(count));
    let shutdown = Shutdown::default();
    let router = Router::with_state(watch.clone()).on(TYPE, arrive);
    let worker =
        Worker::new(QUEUE, router)?.concurrency(u32::from(PREFETCH) / 2).without_observers();
    let (bezoar, stop) = (product.bezoar.clone(), shutdown.clone());
    let worker = tokio::spawn(async move { bezoar.run_until(worker, stop).await });
    let delays = delays(count);
    send(&product, &watch, &delays).await?;
    watch.all().await?;
    shutdown.drain();
    worker.await??;
    product.close().await;
    let bare = Bare::connect(url).await?;
    bare.delete(&[QUEUE, DEAD]).await?;
    bare.close().await;
    Ok(seen(&watch, &delays))
}

/// The same each time.
fn delays(count: u64) -> Vec<Duration> {
    let mut random = StdRng::seed_from_u64(SEED);
    (0..count).map(|_| random.random_range(Duration::ZERO..LONGEST)).collect()
}

async fn send(product: &Product, watch: &Stopwatch, delays: &[Duration]) -> Result<()> {
    let queue = Destination::Queue(QueueName::new(QUEUE)?);
    let numbers: Vec<u64> = (0..delays.len() as u64).collect();
    let mut pace = interval(PACE);
    for (numbers, delays) in numbers.chunks(BATCH).zip(delays.chunks(BATCH)) {
        let outgoing = |(number, delay): (&u64, &Duration)| -> Result<Outgoing> {
            Ok(Outgoing::from(message(numbered(*number))?).after(*delay))
        };
        let batch = numbers.iter().zip(delays).map(outgoing).collect::<Result<Vec<_>>>()?;
        pace.tick().await;
        numbers.iter().for_each(|number| watch.begin(*number));
        for sent in product.bezoar.transport().send(&queue, &batch).await {
            sent?;
        }
    }
    Ok(())
}

async fn arrive(State(watch): State<Arc<Stopwatch>>, context: Context) {
    watch.end_body(context.message.body.reveal());
}

fn seen(watch: &Stopwatch, delays: &[Duration]) -> Seen {
    let late = watch.took().zip(delays).map(|((_, took), delay)| {
        let delay = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        (took - delay, (delay / 20).max(250_000))
    });
    let late: Vec<(i64, i64)> = late.collect();
    let in_time = late.iter().filter(|(late, allowed)| late <= allowed).count();
    Seen {
        early: late.iter().filter(|(late, _)| *late < 0).count() as u64,
        in_time: in_time as f64 / late.len() as f64,
        latest: late.iter().map(|(late, _)| *late).max().unwrap_or(0) as f64 / 1e3,
    }
}

//! A thousand messages a second: how long until the handler has one, and until one that failed is set aside.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use bench_support::Percentiles;
use bezoar::rabbitmq::DeadLettering;
use bezoar::{Context, Destination, Failure, Outgoing, QueueName, Router, Shutdown, State, Worker};
use futures_util::StreamExt as _;
use lapin::options::BasicAckOptions;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval},
};

use crate::{
    bare,
    broker::{Bare, PREFETCH, TYPE, properties},
    product::{Product, message},
    stopwatch::{Stopwatch, numbered},
};

/// A message a millisecond.
const PACE: Duration = Duration::from_millis(1);
const QUEUE: &str = "paced";
const DEAD: &str = "paced.dead";
const BARE_QUEUE: &str = "paced-bare";

/// From publishing to the handler: ours, and the bare program's. Both at the same time, because the longest waits are
/// the broker's, which come when they come.
pub(crate) async fn latencies(url: &str, count: u64) -> Result<[Percentiles; 2]> {
    let (ours, bare) = tokio::try_join!(latency(url, count), bare_latency(url, count))?;
    Ok([ours, bare])
}

/// From publishing to the consumer of a bare program.
async fn bare_latency(url: &str, count: u64) -> Result<Percentiles> {
    let (publishing, consuming) = (Bare::connect(url).await?, Bare::connect(url).await?);
    consuming.fresh(BARE_QUEUE, &[]).await?;
    let watch = Arc::new(Stopwatch::new(count));
    let reader = read(&consuming, BARE_QUEUE, watch.clone()).await?;
    let channel = publishing.confirming().await?;
    paced(count, |number| {
        let (channel, watch) = (channel.clone(), watch.clone());
        async move {
            watch.begin(number);
            bare::store(&channel, BARE_QUEUE, &numbered(number), properties(number)).await
        }
    })
    .await?;
    watch.all().await?;
    reader.abort();
    consuming.delete(&[BARE_QUEUE]).await?;
    consuming.close().await;
    publishing.close().await;
    Ok(watch.percentiles())
}

/// From publishing to the handler.
async fn latency(url: &str, count: u64) -> Result<Percentiles> {
    let watch = Arc::new(Stopwatch::new(count));
    let product = Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(QUEUE).await?;
    let shutdown = Shutdown::default();
    let worker = start(&product, Router::with_state(watch.clone()).on(TYPE, arrive), &shutdown)?;
    send(&product, count, |number| watch.begin(number)).await?;
    watch.all().await?;
    shutdown.drain();
    worker.await??;
    end(url, product).await?;
    Ok(watch.percentiles())
}

/// From the failure of the handler to the dead-letter queue.
pub(crate) async fn set_aside(
    url: &str,
    count: u64,
    dead_lettering: DeadLettering,
) -> Result<Percentiles> {
    let watch = Arc::new(Stopwatch::new(count));
    let product = Product::open(url, dead_lettering)?;
    product.bezoar.provision(QUEUE).await?;
    let bare = Bare::connect(url).await?;
    let reader = read(&bare, DEAD, watch.clone()).await?;
    let shutdown = Shutdown::default();
    let worker = start(&product, Router::with_state(watch.clone()).on(TYPE, refuse), &shutdown)?;
    send(&product, count, |_| ()).await?;
    watch.all().await?;
    shutdown.drain();
    worker.await??;
    reader.abort();
    bare.close().await;
    end(url, product).await?;
    Ok(watch.percentiles())
}

async fn end(url: &str, product: Product) -> Result<()> {
    product.close().await;
    let bare = Bare::connect(url).await?;
    bare.delete(&[QUEUE, DEAD]).await?;
    bare.close().await;
    Ok(())
}

type Watch = Arc<Stopwatch>;

async fn arrive(State(watch): State<Watch>, context: Context) {
    watch.end_body(context.message.body.reveal());
}

async fn refuse(State(watch): State<Watch>, context: Context) -> Result<(), Failure> {
    watch.begin_body(context.message.body.reveal());
    Err(Failure::permanent("no patient 17"))
}

fn start(
    product: &Product,
    router: Router<Watch>,
    shutdown: &Shutdown,
) -> Result<JoinHandle<Result<()>>> {
    let worker =
        Worker::new(QUEUE, router)?.concurrency(u32::from(PREFETCH) / 2).without_observers();
    let (bezoar, shutdown) = (product.bezoar.clone(), shutdown.clone());
    Ok(tokio::spawn(async move { Ok(bezoar.run_until(worker, shutdown).await?) }))
}

/// Notes what comes from a queue.
async fn read(bare: &Bare, queue: &str, watch: Watch) -> Result<JoinHandle<Result<()>>> {
    let (channel, consumer) = bare.consume(queue).await?;
    Ok(tokio::spawn(async move {
        let mut chunks = consumer.ready_chunks(PREFETCH.into());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.into_iter().collect::<lapin::Result<Vec<_>>>()?;
            chunk.iter().for_each(|delivery| watch.end_body(&delivery.data));
            let Some(last) = chunk.last() else { continue };
            channel.basic_ack(last.delivery_tag, BasicAckOptions { multiple: true }).await?;
        }
        Ok(())
    }))
}

/// Sends one after the other, each by itself.
async fn send(product: &Product, count: u64, begin: impl Fn(u64)) -> Result<()> {
    let queue = Destination::Queue(QueueName::new(QUEUE)?);
    paced(count, |number| {
        begin(number);
        let (bezoar, queue) = (product.bezoar.clone(), queue.clone());
        async move {
            let outgoing = Outgoing::from(message(numbered(number))?);
            bezoar
                .transport()
                .send(&queue, &[outgoing])
                .await
                .into_iter()
                .try_for_each(|sent| sent.map(drop))?;
            Ok(())
        }
    })
    .await
}

/// Starts `work` once a millisecond, whether or not the last has ended.
async fn paced<F>(count: u64, work: impl Fn(u64) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (mut working, mut pace) = (JoinSet::new(), interval(PACE));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..count {
        pace.tick().await;
        working.spawn(work(number));
        while let Some(ended) = working.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = working.join_next().await {
        ended??;
    }
    Ok(())
}

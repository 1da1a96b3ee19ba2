//! Times apalis-amqp on a queue that was filled for it, with a handler that does nothing.
//!
//! Prints one line of JSON: `{"peer": …, "processed_per_second": …, "settings": …}`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use apalis::prelude::{BoxDynError, Data, TaskSink as _, WorkerBuilder, WorkerContext};
use apalis_amqp::{AmqpBackend, Config};
use clap::Parser;
use lapin::{
    Connection, ConnectionProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};

/// Text, because apalis decodes jobs as JSON.
type Job = String;

#[derive(Debug, Parser)]
struct Options {
    /// The broker.
    #[arg(long)]
    url: String,
    /// A quorum queue that holds so many jobs.
    #[arg(long)]
    queue: String,
    #[arg(long)]
    messages: u64,
    /// How many unacknowledged jobs the broker sends ahead; as many run at a time.
    #[arg(long)]
    prefetch: u16,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let mut backend =
        AmqpBackend::<Job>::new_from_addr(&options.url)?.with_config(config(&options));
    // One more: a worker of apalis-amqp 1.0.0 panics unless its backend has sent something before.
    backend.push("x".to_owned()).await?;
    let started = Instant::now();
    WorkerBuilder::new("bench")
        .backend(backend)
        .data(Arc::new(AtomicU64::new(options.messages + 1)))
        .build(handle)
        .run()
        .await
        .map_err(|error| anyhow!("the worker stopped: {error}"))?;
    let elapsed = started.elapsed();
    until_empty(&options).await?;
    print_result(&options, elapsed);
    Ok(())
}

fn config(options: &Options) -> Config {
    Config::default()
        .queue(options.queue.as_str())
        .prefetch_count(options.prefetch)
        .declare_options(durable())
        .declare_arguments(quorum())
}

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() }
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

async fn handle(
    _job: Job,
    left: Data<Arc<AtomicU64>>,
    worker: WorkerContext,
) -> Result<(), BoxDynError> {
    if left.0.fetch_sub(1, Ordering::Relaxed) == 1 {
        worker.stop()?;
    }
    Ok(())
}

/// What the worker left unacknowledged is ready again once its connection has ended.
async fn until_empty(options: &Options) -> Result<()> {
    let connection = Connection::connect(&options.url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let queue = options.queue.as_str().into();
    let found = channel.queue_declare(queue, durable(), quorum()).await?;
    anyhow::ensure!(found.message_count() == 0, "{} jobs were left", found.message_count());
    Ok(())
}

fn print_result(options: &Options, elapsed: Duration) {
    let settings = format!(
        "quorum queue, prefetch {}, an acknowledgement each, {} jobs",
        options.prefetch, options.messages,
    );
    let line = serde_json::json!({
        "peer": "apalis-amqp",
        "processed_per_second": options.messages as f64 / elapsed.as_secs_f64(),
        "settings": settings,
    });
    println!("{line}");
}

//! The embedded queue itself: durable acceptance, and a worker with a handler that does nothing.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Result, ensure};
use bench_support::{Measurement, Place};
use bezoar::{
    Bezoar, Body, Clock as _, Destination, Failure, Message, MessageId, MessageType, QueueName,
    Router, Shutdown, State, SystemClock, Worker,
};

use crate::options::Sizes;

pub(crate) const ACCEPT: &str = "bezoar: accept, 256 producers";
pub(crate) const PROCESS: &str = "bezoar: worker, one by one";
pub(crate) const SET_ASIDE: &str = "bezoar: worker, every one set aside";

pub(crate) const QUEUE: &str = "bench";
const PRODUCERS: u64 = 256;
const CONCURRENCY: u32 = 256;

/// Accepts and then processes all messages once, on a fresh file.
pub(crate) fn round(place: &Place, sizes: &Sizes) -> Result<Vec<Measurement>> {
    let directory = place.scratch()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let bezoar = runtime.block_on(open(directory.path()))?;
    let count = sizes.messages / PRODUCERS * PRODUCERS;
    let accepted =
        Measurement::of(ACCEPT, count, || runtime.block_on(accept(&bezoar, count, PRODUCERS, 1)))?;
    let processed = Measurement::of(PROCESS, count, || {
        runtime.block_on(process(&bezoar, count, |router| router.on("nothing", nothing), 0))
    })?;
    runtime.block_on(accept(&bezoar, count, PRODUCERS, 1))?;
    let set_aside = Measurement::of(SET_ASIDE, count, || {
        runtime.block_on(process(&bezoar, count, |router| router.on("nothing", refuse), count))
    })?;
    Ok(vec![accepted, processed, set_aside])
}

pub(crate) async fn open(directory: &Path) -> Result<Bezoar> {
    let bezoar =
        bezoar::connect(&format!("sqlite:{}", directory.join("bezoar.db").display())).await?;
    bezoar.provision(QUEUE).await?;
    Ok(bezoar)
}

/// Each of the producers waits for one send after the other.
pub(crate) async fn accept(
    bezoar: &Bezoar,
    count: u64,
    producers: u64,
    batch: usize,
) -> Result<()> {
    let each = count / producers / batch as u64;
    let producing = (0..producers).map(|_| tokio::spawn(produce(bezoar.clone(), each, batch)));
    for produced in producing.collect::<Vec<_>>() {
        produced.await??;
    }
    Ok(())
}

async fn produce(bezoar: Bezoar, sends: u64, batch: usize) -> Result<()> {
    let queue = Destination::Queue(QueueName::new(QUEUE)?);
    let (kind, body) = (MessageType::new("nothing")?, Body::from(vec![b'x'; 1024]));
    for _ in 0..sends {
        let message = || {
            let now = SystemClock.now();
            Message::new(
                MessageId::generate(now, &mut rand::rng()),
                kind.clone(),
                now,
                body.clone(),
            )
            .into()
        };
        let messages: Vec<_> = (0..batch).map(|_| message()).collect();
        for sent in bezoar.transport().send(&queue, &messages).await {
            sent?;
        }
    }
    Ok(())
}

/// Works on all messages, of which so many end as dead letters.
async fn process(
    bezoar: &Bezoar,
    count: u64,
    on: impl FnOnce(Router<Tally>) -> Router<Tally>,
    dead: u64,
) -> Result<()> {
    let tally = Tally { left: Arc::new(AtomicU64::new(count)), shutdown: Shutdown::default() };
    let router = on(Router::with_state(tally.clone()));
    // Not the log: who sets everything aside would mostly write lines about it.
    let worker = Worker::new(QUEUE, router)?.concurrency(CONCURRENCY).without_observers();
    bezoar.run_until(worker, tally.shutdown).await?;
    let depth = bezoar.admin().depth(&QueueName::new(QUEUE)?).await?;
    ensure!(
        (depth.ready, depth.leased, depth.dead) == (Some(0), Some(0), Some(dead)),
        "left over: {depth:?}"
    );
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
    Err(Failure::permanent("no patient 17"))
}

//! Load on one queue: messages are sent, completed, retried after a delay, and dead-lettered.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bezoar_core::{
    Code, Delivery, ErrorKind, FailedTry, Failure, Message, MessageId, MessageType, Outgoing,
    QueueAdmin, QueueName, Reason, Settlement, SubscribeOptions, Subscription, Transport, millis,
};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::checker::{Checker, Verdict, body_of};

/// The prefetch limit of each worker.
const PREFETCH: u32 = 16;
const WORKERS: u32 = 2;
/// How many messages can be in flight at once: for each worker those prefetched, one in quarantine, and
/// those being moved.
pub(crate) const IN_FLIGHT: u32 = WORKERS * (2 * PREFETCH + 1);
/// How long RabbitMQ 3.10 may take until its list of quorum queues is on disk. If it is killed before that, the queue has
/// no leader after the restart, and confirms nothing.
const LISTED_WITHIN: Duration = Duration::from_secs(2);
/// How long there may be no progress while something is left to do.
pub(crate) const STANDSTILL: Duration = Duration::from_secs(60);

pub(crate) fn options(url: &str, queue_type: QueueType) -> Options {
    Options {
        queue_type,
        connect_timeout: Duration::from_secs(5),
        confirm_timeout: Duration::from_secs(5),
        reconnect_pause: Duration::from_millis(500),
        ..Options::from_url(url).unwrap()
    }
}

/// The senders, the workers, and what they have seen.
pub(crate) struct Load {
    checker: Arc<Checker>,
    direct: RabbitTransport,
    queue: QueueName,
    sent: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    sending: JoinHandle<()>,
    working: Vec<JoinHandle<()>>,
    patience: Duration,
}

impl Load {
    /// Starts on a new queue. Messages are sent through `sender` and handled through `worker`; `direct`
    /// is used to check the result.
    pub(crate) async fn begin(
        direct: RabbitTransport,
        sender: Arc<dyn Transport>,
        worker: RabbitTransport,
    ) -> Self {
        let queue = QueueName::new(format!("load-{:08x}", rand::random::<u32>())).unwrap();
        direct.provision(&queue).await.unwrap();
        sleep(LISTED_WITHIN).await;
        let (checker, stop, sent) = <(Arc<Checker>, Arc<AtomicBool>, Arc<AtomicU32>)>::default();
        let sending =
            tokio::spawn(send(sender, queue.clone(), checker.clone(), sent.clone(), stop.clone()));
        let work =
            |_| tokio::spawn(work(worker.clone(), queue.clone(), checker.clone(), stop.clone()));
        let working = (0..WORKERS).map(work).collect();
        Self { checker, direct, queue, sent, stop, sending, working, patience: STANDSTILL }
    }

    /// How long to wait at the end before concluding that nothing more arrives.
    pub(crate) fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Waits until this many more messages were accepted.
    pub(crate) async fn more(&self, count: u32) {
        let (goal, started) = (self.sent.load(Ordering::SeqCst) + count, Instant::now());
        while self.sent.load(Ordering::SeqCst) < goal {
            let trouble = || self.checker.last_trouble();
            assert!(started.elapsed() < STANDSTILL, "nothing is accepted: {}", trouble());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until this many more messages were completed; returns how long it took.
    pub(crate) async fn handle_more(&self, count: u32) -> Duration {
        let (goal, started) = (self.checker.ends() + count, Instant::now());
        while self.checker.ends() < goal {
            let trouble = || self.checker.last_trouble();
            assert!(started.elapsed() < STANDSTILL, "nothing is completed: {}", trouble());
            sleep(Duration::from_millis(10)).await;
        }
        started.elapsed()
    }

    /// Stops sending, waits until every message has an outcome, and returns the verdict.
    pub(crate) async fn end(mut self) -> Verdict {
        self.sending.abort();
        let _ = (&mut self.sending).await;
        let (mut open, mut changed) = (usize::MAX, Instant::now());
        while self.missing().await > 0 && changed.elapsed() < self.patience {
            let now = self.checker.open();
            if now != open {
                (open, changed) = (now, Instant::now());
            }
            sleep(Duration::from_millis(500)).await;
        }
        self.stop.store(true, Ordering::SeqCst);
        for working in self.working {
            working.await.unwrap();
        }
        count_dead(&self.direct, &self.queue, &self.checker).await;
        self.checker.verdict()
    }

    /// How many messages are not in their expected place at the end.
    async fn missing(&self) -> u64 {
        let depth = self.direct.depth(&self.queue).await;
        let ready = depth.ok().and_then(|depth| depth.ready).unwrap_or(1);
        self.checker.open() as u64 + ready
    }
}

async fn count_dead(transport: &RabbitTransport, queue: &QueueName, checker: &Checker) {
    let (started, quiet) = (Instant::now(), Duration::from_secs(3));
    let mut feed = None;
    loop {
        let next = match &feed {
            None => match transport.dead_letter_feed(queue).await {
                Ok(opened) => {
                    feed = opened;
                    continue;
                }
                Err(failed) => Err(failed),
            },
            Some(feed) => feed.next(NonZeroU32::MAX, quiet).await,
        };
        match next {
            Ok(letters) if letters.is_empty() => return,
            Ok(letters) => {
                letters.iter().for_each(|letter| checker.ended(letter.message.id.as_str()));
                // The broker sends no more letters until these are acknowledged.
                let ids: Vec<_> = letters.iter().map(|letter| letter.id).collect();
                let removed = feed.as_ref().expect("it was read").remove(&ids).await;
                assert!(removed.is_ok() || started.elapsed() < STANDSTILL, "{removed:?}");
            }
            Err(failed) => {
                assert!(started.elapsed() < STANDSTILL, "{failed}");
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn send(
    transport: Arc<dyn Transport>,
    queue: QueueName,
    checker: Arc<Checker>,
    sent: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
) {
    let mut next = 0_u32;
    while !stop.load(Ordering::SeqCst) {
        let batch: Vec<Outgoing> = (next..next + 10).map(message).collect();
        next += 10;
        batch.iter().for_each(|it| checker.tried(it.message.id.as_str()));
        let results = transport.send(&(&queue).into(), &batch).await;
        for (outgoing, result) in batch.iter().zip(results) {
            match result {
                Ok(_) => {
                    let id = outgoing.message.id.as_str();
                    checker.happened(id, format!("{:?}: accepted", Instant::now()));
                    checker.accepted(id);
                    sent.fetch_add(1, Ordering::SeqCst);
                }
                Err(failed) => checker.trouble(&failed),
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn message(number: u32) -> Outgoing {
    let id = format!("m-{number}");
    let body = body_of(&id);
    let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("sample").unwrap());
    Message::new(id, kind, millis(0), body).into()
}

async fn work(
    transport: RabbitTransport,
    queue: QueueName,
    checker: Arc<Checker>,
    stop: Arc<AtomicBool>,
) {
    let options = SubscribeOptions::default()
        .with_prefetch(NonZeroU32::new(PREFETCH).unwrap())
        .with_lease(Duration::from_secs(1));
    while !stop.load(Ordering::SeqCst) {
        let Ok(worker) = transport.subscribe(&queue, options).await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let wait = Duration::from_millis(300);
        let mut again = Vec::new();
        while !stop.load(Ordering::SeqCst)
            && let Ok(some) = worker.receive(options.prefetch, wait).await
        {
            let mut batch = std::mem::take(&mut again);
            batch.extend(some.into_iter().map(|it| decide(it, &checker)));
            again = settle(&*worker, batch, &checker).await;
        }
        let _ = worker.close().await;
    }
}

/// Settles and records the result. A settlement that the transport cannot store yet must be tried again.
async fn settle(
    worker: &dyn Subscription,
    batch: Vec<(Delivery, Settlement)>,
    checker: &Checker,
) -> Vec<(Delivery, Settlement)> {
    let kept: Vec<_> = batch.iter().map(|(it, end)| (it.copy(), end.clone())).collect();
    let mut again = Vec::new();
    for ((delivery, settlement), result) in kept.into_iter().zip(worker.settle(batch).await) {
        let id = delivery.message.id.as_str();
        let told = result.as_ref().map_err(|failed| failed.kind.clone());
        checker.happened(id, format!("{:?}: {told:?}", Instant::now()));
        match (&settlement, result) {
            (Settlement::Complete, Ok(())) => checker.ended(id),
            (Settlement::DeadLetter { .. }, Ok(())) => checker.set_aside(id),
            (_, Err(failed)) if failed.is_transient() || failed.kind == ErrorKind::Full => {
                again.push((delivery, settlement));
            }
            (Settlement::Complete, Err(failed)) if failed.kind == ErrorKind::OutcomeUnknown => {
                checker.perhaps_done(id);
            }
            _ => (),
        }
    }
    again
}

/// One in ten messages is dead-lettered; three in ten fail twice and are retried after a delay.
fn decide(delivery: Delivery, checker: &Checker) -> (Delivery, Settlement) {
    let message = &delivery.message;
    let id = message.id.as_str();
    let counts = (message.ledger.acquired, message.ledger.failed);
    checker.happened(id, format!("{:?}: {:?} {counts:?}", Instant::now(), delivery.receipt));
    checker.handed_out(id, message.body.reveal(), delivery.redelivered);
    let failure = Failure::transient("boom");
    let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &failure)];
    let settlement = match id.as_bytes().last() {
        Some(b'0') => {
            let reason = Reason::new(Code::from_static("test"), "set aside by a test");
            Settlement::DeadLetter { reason, tries }
        }
        Some(b'1'..=b'3') if message.ledger.failed < 2 => {
            checker.delayed(id);
            Settlement::Retry { after: Duration::from_millis(300), tries }
        }
        _ => Settlement::Complete,
    };
    (delivery, settlement)
}

//! What is recorded: senders and receivers at work, and an operator after them.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bezoar_core::{
    Code, DeadLetter, DeadLetterAccess, DeadLetterIds, DeadLetterPage, Delivery, FailedTry,
    Failure, Ledger, Outgoing, QueueAdmin, Reason, Settlement, SubscribeOptions, Subscription,
    Transport, UncountedFailure, millis,
};
use bezoar_sqlite::{SqliteTransport, Synchronous};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use super::{
    database,
    message::message,
    promises::{Intention, MessageNumber, Place, PromiseLog, State},
};

/// How often the database is opened, used and closed. Closing it removes the write-ahead log.
const SESSIONS: u32 = 2;
const SENDERS: u32 = 4;
const RECEIVERS: u64 = 3;
/// By each sender in each session.
const MESSAGES: u32 = 110;
/// Longer than any test: neither leases nor delays end by themselves.
const HOUR: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_secs(120);

/// Works on a database in `folder` and writes down there what it was promised. So many ran before it.
///
/// What fails is not promised: a sync may be made to fail, and then the process is soon killed.
pub(crate) fn run(folder: &Path, synchronous: Synchronous, seed: u64, before: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let promise_log = Arc::new(PromiseLog::open(folder));
    for session in before * SESSIONS..(before + 1) * SESSIONS {
        let (transport, closed) = database::open(folder, synchronous).unwrap();
        let workload = Workload {
            transport,
            promise_log: promise_log.clone(),
            seed: seed + u64::from(session),
        };
        runtime.block_on(async {
            tokio::time::timeout(TIMEOUT, workload.work(session)).await.expect("the workload ends");
        });
        drop(workload);
        closed.wait();
    }
}

#[derive(Debug, Clone)]
struct Workload {
    transport: SqliteTransport,
    promise_log: Arc<PromiseLog>,
    seed: u64,
}

impl Workload {
    async fn work(&self, session: u32) {
        while self.transport.provision(&database::queue()).await.is_err() {}
        self.promise_log.queue();
        let (mut senders, mut receivers) = (JoinSet::new(), JoinSet::new());
        let all_sent = Arc::new(AtomicBool::new(false));
        for receiver in 0..RECEIVERS {
            let random = StdRng::seed_from_u64(self.seed + 1_000 * (receiver + 1));
            receivers.spawn(self.clone().receive(all_sent.clone(), random));
        }
        for sender in 0..SENDERS {
            let first = (session * SENDERS + sender) * MESSAGES;
            senders.spawn(self.clone().send(first..first + MESSAGES));
        }
        senders.join_all().await;
        all_sent.store(true, Ordering::Relaxed);
        receivers.join_all().await;
        self.operate().await;
    }

    /// Sends messages, one to three at a time.
    async fn send(self, numbers: std::ops::Range<MessageNumber>) {
        let mut random = StdRng::seed_from_u64(self.seed + u64::from(numbers.start));
        let mut numbers: Vec<_> = numbers.collect();
        while !numbers.is_empty() {
            let batch = numbers.split_off(numbers.len().saturating_sub(random.random_range(1..=3)));
            let sent = State::new(Place::Ready, &Ledger::default());
            let begun: Vec<_> = batch.iter().map(|it| self.promise_log.may(*it, sent)).collect();
            let batch: Vec<Outgoing> = batch.into_iter().map(|it| message(it).into()).collect();
            let results = self.transport.send(&database::queue().into(), &batch).await;
            self.acknowledge(begun, results);
        }
    }

    /// Receives and settles until all was sent and nothing is left.
    async fn receive(self, all_sent: Arc<AtomicBool>, mut random: StdRng) {
        let options = SubscribeOptions::default().with_lease(HOUR);
        let queue = database::queue();
        let subscription = loop {
            if let Ok(subscription) = self.transport.subscribe(&queue, options).await {
                break subscription;
            }
        };
        loop {
            let was_all_sent = all_sent.load(Ordering::Relaxed);
            let max = NonZeroU32::new(random.random_range(1..=4)).unwrap();
            let received = subscription.receive(max, Duration::from_millis(20)).await;
            let Ok(received) = received else { continue };
            if received.is_empty() && was_all_sent {
                return;
            }
            for delivery in &received {
                let state = State::new(Place::Leased, &delivery.message.ledger);
                self.promise_log.is(number(&delivery.message), state);
            }
            self.settle(&*subscription, received, &mut random).await;
        }
    }

    async fn settle(
        &self,
        subscription: &dyn Subscription,
        received: Vec<Delivery>,
        random: &mut StdRng,
    ) {
        let (mut begun, mut batch) = (Vec::new(), Vec::new());
        for mut delivery in received {
            let Some(settlement) = decide(random) else {
                let one = std::slice::from_mut(&mut delivery);
                let _ = subscription.extend(one, 2 * HOUR).await;
                continue;
            };
            let state = settled(&delivery.message.ledger, &settlement);
            begun.push(self.promise_log.may(number(&delivery.message), state));
            batch.push((delivery, settlement));
        }
        let results = subscription.settle(batch).await;
        self.acknowledge(begun, results);
    }

    /// Of every three dead letters, one is sent back, one is removed and one stays.
    async fn operate(&self) {
        let queue = database::queue();
        let dead = self.transport.dead_letters(&queue, DeadLetterPage::default()).await.unwrap();
        for (at, DeadLetter { id, message, .. }) in dead.into_iter().enumerate() {
            let only = DeadLetterIds::Ids(vec![id]);
            let replayed = Ledger::restored(0, 0, 0, message.ledger.replayed + 1, Vec::new());
            let begin = |state| self.promise_log.may(number(&message), state);
            let (begun, done) = match at % 3 {
                0 => {
                    let begun = begin(State::new(Place::Ready, &replayed));
                    (begun, self.transport.replay(&queue, &only).await)
                }
                1 => (begin(State::ABSENT), self.transport.discard(&queue, &only).await),
                _ => continue,
            };
            if let Ok(done) = done {
                assert_eq!(done, 1);
                self.promise_log.ok(begun);
            }
        }
    }

    fn acknowledge<T, E>(&self, begun: Vec<Intention>, results: Vec<Result<T, E>>) {
        assert_eq!(begun.len(), results.len());
        for (intention, result) in begun.into_iter().zip(results) {
            if result.is_ok() {
                self.promise_log.ok(intention);
            }
        }
    }
}

/// What becomes of a delivery; `None` keeps it leased.
fn decide(random: &mut StdRng) -> Option<Settlement> {
    let tries = vec![FailedTry::new(millis(1), HOUR, &Failure::transient("a long story"))];
    Some(match random.random_range(0..100) {
        0..45 => Settlement::Complete,
        45..70 => Settlement::Retry { after: Duration::ZERO, tries },
        70..76 => Settlement::Retry { after: HOUR, tries },
        76..85 => {
            let reason = Reason::new(Code::UNKNOWN, "it did not work");
            Settlement::DeadLetter { reason, tries }
        }
        85..92 => Settlement::Release { after: Duration::ZERO },
        92..96 => {
            let (code, waited) = (Code::TIMEOUT, Duration::from_secs(1));
            let failure = UncountedFailure { at: millis(2), code, suspected: true, waited };
            Settlement::Uncounted { after: Duration::ZERO, failure }
        }
        _ => return None,
    })
}

/// The state that a settlement leads to.
fn settled(ledger: &Ledger, settlement: &Settlement) -> State {
    let mut ledger = ledger.clone();
    let place = match settlement {
        Settlement::Complete => return State::ABSENT,
        Settlement::DeadLetter { .. } => Place::Dead,
        _ => Place::Ready,
    };
    settlement.record(&mut ledger);
    State::new(place, &ledger)
}

fn number(message: &bezoar_core::Message) -> MessageNumber {
    message.id.as_str().parse().unwrap()
}

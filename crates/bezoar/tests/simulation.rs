//! Policy, worker and memory transport under random schedules with injected faults.
//!
//! Each seed is a small world in virtual time: a few messages, handlers that fail, panic, hang and
//! dawdle, a transport that refuses or loses its answers, processes that are killed. Every move of every
//! message is checked as it happens; in the end each must be done or dead, for a reason that the
//! policy allows. A failing seed is printed; `BEZOAR_SIMULATION_SEED=n` runs it alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{HashMap, HashSet},
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Backoff, Context, DeadLetter, DeadLetterAccess, DeadLetterPage, Delivery, Depth, Failure,
    FailureKind, Host, Jitter, Message, MessageId, MessageType, Outgoing, QueueAdmin, QueueName,
    Reason, RetryPolicy, Router, Settlement, Shutdown, State, Subscription, Transport,
    TransportError, Worker,
    memory::{MemoryTransport, Options, Place, Transition},
    testing::VirtualClock,
};
use bezoar_conformance::{Faulty, Intercept, Intercepted, seeded};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const SCHEDULES: u64 = 100_000;
const SECOND: Duration = Duration::from_secs(1);
/// What a simulated panic says, so that the hook keeps quiet about it and about nothing else.
const STAGED: &str = "staged";

#[test]
fn every_schedule_keeps_the_promises() {
    if let Ok(seed) = env::var("BEZOAR_SIMULATION_SEED") {
        return simulate_all([seed.parse().unwrap()], Sabotage::None);
    }
    let half = SCHEDULES / 2;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| simulate_all(half..SCHEDULES, Sabotage::None));
        simulate_all(0..half, Sabotage::None);
        other.join().unwrap();
    });
}

#[test]
fn a_transport_that_loses_retries_is_caught() {
    let caught = std::panic::catch_unwind(|| simulate_all(0..500, Sabotage::RetryIsDropped));
    assert!(caught.is_err());
}

#[test]
fn a_transport_that_loses_dead_letters_is_caught() {
    let caught = std::panic::catch_unwind(|| simulate_all(0..500, Sabotage::DeadLetterIsDropped));
    assert!(caught.is_err());
}

#[test]
fn a_transport_that_forgets_failures_is_caught() {
    let caught = std::panic::catch_unwind(|| simulate_all(0..500, Sabotage::FailuresAreForgotten));
    assert!(caught.is_err());
}

/// Runs seeds one after the other, each in the same paused runtime.
fn simulate_all(seeds: impl IntoIterator<Item = u64>, sabotage: Sabotage) {
    keep_quiet_about_staged_panics();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    for seed in seeds {
        let world =
            std::panic::AssertUnwindSafe(|| runtime.block_on(World::new(seed, sabotage).run()));
        if let Err(panic) = std::panic::catch_unwind(world) {
            eprintln!("BEZOAR_SIMULATION_SEED={seed} fails");
            std::panic::resume_unwind(panic);
        }
    }
}

fn keep_quiet_about_staged_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&STAGED) {
                usual(panic);
            }
        }));
    });
}

/// One small world.
struct World {
    random: StdRng,
    sabotage: Sabotage,
    queue: QueueName,
    memory: MemoryTransport,
    clock: Arc<VirtualClock>,
    judge: Judge,
    policy: RetryPolicy,
    max_deliveries: u32,
    lease: Duration,
}

impl World {
    fn new(seed: u64, sabotage: Sabotage) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (clock, judge) = (Arc::new(VirtualClock::default()), Judge::new(seed));
        let watch = judge.clone();
        let watch = Arc::new(move |transition| watch.check(&transition));
        let options = Options { clock: clock.clone(), watch: Some(watch), ..Options::default() };
        let backoff = Backoff::Exponential { first: SECOND, multiplier: 2.0 };
        let retries = random.random_range(0..4);
        Self {
            policy: RetryPolicy::new(retries, backoff, 10 * SECOND, Jitter::Full).unwrap(),
            max_deliveries: random.random_range(1..4),
            lease: SECOND * random.random_range(1..10),
            queue: QueueName::new("lab").unwrap(),
            memory: MemoryTransport::new(options),
            random,
            sabotage,
            clock,
            judge,
        }
    }

    async fn run(mut self) {
        self.memory.provision(&self.queue).await.unwrap();
        let count = self.random.random_range(1..6);
        for number in 0..count {
            self.send(number).await;
        }
        let deaths = self.random.random_range(0..3);
        for _ in 0..deaths {
            self.live_and_die().await;
        }
        self.live_to_the_end().await;
        let dead = self.dead_letters().await;
        self.judge.conclude(count as usize, dead.len());
        dead.iter().for_each(|dead| self.check_reason(dead, deaths > 0));
    }

    async fn send(&mut self, number: u32) {
        let id = MessageId::new(format!("m-{number}")).unwrap();
        let time = bezoar::Clock::now(&*self.clock);
        let message = Message::new(id, MessageType::new("result").unwrap(), time, "body");
        let delay = SECOND * self.random.random_range(0..5);
        let sent =
            self.memory.send(&(&self.queue).into(), &[Outgoing::from(message).after(delay)]).await;
        sent.into_iter().map(Result::unwrap).for_each(drop);
    }

    /// A process with a faulty transport, killed after a while.
    async fn live_and_die(&mut self) {
        let (seed, rate) = (self.random.random(), self.random.random_range(0.0..0.4));
        let transport = Arc::new(Faulty::new(self.sabotaged(), seeded(seed, rate)));
        let process = tokio::spawn(self.host(transport).run(Shutdown::default()));
        tokio::time::sleep(Duration::from_millis(self.random.random_range(0..20_000))).await;
        process.abort();
        let _ = process.await;
    }

    /// A process on a sound transport, until nothing is left to do.
    async fn live_to_the_end(&mut self) {
        let shutdown = Shutdown::default();
        let process = tokio::spawn(self.host(self.sabotaged()).run(shutdown.clone()));
        for round in 0.. {
            let Depth { ready, delayed, leased, .. } =
                self.memory.depth(&self.queue).await.unwrap();
            if [ready, delayed, leased] == [Some(0); 3] {
                break;
            }
            assert!(round < 1_000, "never idle");
            tokio::time::sleep(SECOND).await;
        }
        shutdown.drain();
        process.await.unwrap().unwrap();
    }

    fn sabotaged(&self) -> Arc<dyn Transport> {
        let (inner, sabotage) = (self.memory.clone(), self.sabotage);
        Arc::new(Intercepted(Sabotaged { inner, sabotage }))
    }

    fn host(&mut self, transport: Arc<dyn Transport>) -> Host {
        let router = Router::with_state(self.judge.clone()).on("result", handle);
        let worker = Worker::new("lab", router)
            .unwrap()
            .policy(self.policy)
            .max_deliveries(self.max_deliveries)
            .immediate_retries(self.random.random_range(0..2))
            .timeout(20 * SECOND)
            .lease(self.lease)
            .concurrency(self.random.random_range(1..4))
            .fetch_loops(self.random.random_range(1..3))
            .without_observers()
            .deterministic(self.clock.clone(), self.random.random());
        Host::new().grace(SECOND).worker(transport, worker)
    }

    /// Whether a message may be dead for the reason that it gives.
    fn check_reason(&self, dead: &DeadLetter, troubled: bool) {
        let (ledger, most) = (&dead.message.ledger, self.policy.max_retries() + 1);
        let code = dead.reason.code();
        if *code == Reason::EXHAUSTED {
            assert_eq!(ledger.failed, most, "{dead:?}");
        } else if *code == Reason::NOT_RETRYABLE {
            assert!(ledger.failed <= most, "{dead:?}");
            assert_eq!(ledger.last().unwrap().kind, FailureKind::Permanent, "{dead:?}");
        } else if *code == Reason::MAX_DELIVERIES {
            assert!(troubled, "nobody died or lost a lease: {dead:?}");
            assert!(ledger.without_outcome() > self.max_deliveries, "{dead:?}");
        } else {
            panic!("no such reason: {dead:?}");
        }
    }

    async fn dead_letters(&self) -> Vec<DeadLetter> {
        self.memory.dead_letters(&self.queue, DeadLetterPage::default()).await.unwrap()
    }
}

async fn handle(State(judge): State<Judge>, context: Context) -> Result<(), Failure> {
    let id = &context.message.id;
    let mut chance = judge.chance();
    tokio::time::sleep(Duration::from_millis(chance.random_range(0..3_000))).await;
    match chance.random_range(0..20) {
        0..3 => Err(Failure::transient("again")),
        3..5 => Err(Failure::permanent("never")),
        5 => std::panic::panic_any(STAGED),
        6 => std::future::pending().await,
        7 => {
            tokio::time::sleep(Duration::from_millis(chance.random_range(0..15_000))).await;
            judge.succeeded(id);
            Ok(())
        }
        _ => {
            judge.succeeded(id);
            Ok(())
        }
    }
}

/// Knows where every message is and whether its handler ever succeeded. Clones are the same judge.
#[derive(Clone)]
struct Judge(Arc<Mutex<Knowledge>>);

struct Knowledge {
    places: HashMap<MessageId, Place>,
    succeeded: HashSet<MessageId>,
    /// The first move that was wrong. A worker survives a transport that panics, so it is kept.
    wrong: Option<String>,
    random: StdRng,
}

impl Judge {
    fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(!seed);
        let (places, succeeded) = (HashMap::new(), HashSet::new());
        Self(Arc::new(Mutex::new(Knowledge { places, succeeded, wrong: None, random })))
    }

    /// What one run of a handler will do.
    fn chance(&self) -> StdRng {
        StdRng::from_rng(&mut self.0.lock().unwrap().random)
    }

    fn succeeded(&self, id: &MessageId) {
        self.0.lock().unwrap().succeeded.insert(id.clone());
    }

    /// Every move of every message comes by here while it happens.
    fn check(&self, transition: &Transition) {
        let mut known = self.0.lock().unwrap();
        let before = known.places.insert(transition.id.clone(), transition.to);
        let legal = match (transition.from, transition.to) {
            (Place::Outside, Place::Waiting) => before.is_none(),
            (Place::Waiting, Place::Leased)
            | (Place::Leased, Place::Leased | Place::Waiting | Place::Dead) => true,
            (Place::Leased, Place::Outside) => known.succeeded.contains(&transition.id),
            _ => false,
        };
        let continuous = before.unwrap_or(Place::Outside) == transition.from;
        if !legal || !continuous {
            known.wrong.get_or_insert(format!("{transition:?}, it was {before:?}"));
        }
    }

    /// In the end every message is done or dead, and in no third place.
    fn conclude(&self, sent: usize, dead: usize) {
        let known = self.0.lock().unwrap();
        assert_eq!(known.wrong, None, "illegal move");
        let at = |place| known.places.values().filter(|it| **it == place).count();
        assert_eq!((at(Place::Dead), at(Place::Outside) + at(Place::Dead)), (dead, sent));
    }
}

/// How the transport is broken on purpose, for the negative controls.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sabotage {
    None,
    RetryIsDropped,
    DeadLetterIsDropped,
    FailuresAreForgotten,
}

impl Sabotage {
    fn twist(self, settlement: Settlement) -> Settlement {
        match (self, settlement) {
            (Self::RetryIsDropped, Settlement::Retry { .. })
            | (Self::DeadLetterIsDropped, Settlement::DeadLetter { .. }) => Settlement::Complete,
            (Self::FailuresAreForgotten, Settlement::Retry { after, .. }) => {
                Settlement::Retry { after, tries: Vec::new() }
            }
            (_, settlement) => settlement,
        }
    }
}

#[derive(Debug, Clone)]
struct Sabotaged {
    inner: MemoryTransport,
    sabotage: Sabotage,
}

#[async_trait::async_trait]
impl Intercept for Sabotaged {
    fn inner(&self) -> &dyn Transport {
        &self.inner
    }

    async fn settle(
        &self,
        inner: &dyn Subscription,
        batch: Vec<(Delivery, Settlement)>,
    ) -> Vec<Result<(), TransportError>> {
        let twist = |(delivery, settlement)| (delivery, self.sabotage.twist(settlement));
        inner.settle(batch.into_iter().map(twist).collect()).await
    }
}

//! Leases under random schedules in virtual time: settlements and renewals that are unavailable for a while.
//!
//! Two laws. While renewals work no message is handled twice, however long outcomes cannot be stored. Where
//! renewals fail too, two handlers never have a message at the same time, and whoever gets it again is told.
//! A failing seed is printed; `BEZOAR_RENEWALS_SEED=n` runs it alone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::HashMap,
    env,
    num::NonZeroU32,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    Context, Delivery, Depth, ErrorKind, Host, Message, MessageId, MessageType, QueueAdmin,
    QueueName, Router, Settlement, Shutdown, State, Subscription, Transport, TransportError,
    Worker,
    memory::{MemoryTransport, Options},
    testing::VirtualClock,
};
use bezoar_conformance::{Intercept, Intercepted};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep};

const LEASE: Duration = Duration::from_secs(10);

#[test]
fn while_renewals_work_no_message_is_handled_twice() {
    simulate(0..10_000, Faults::Settling).unwrap();
}

#[test]
fn where_renewals_fail_nobody_else_has_the_message_meanwhile() {
    simulate(0..10_000, Faults::Both).unwrap();
}

#[test]
#[ignore = "the full count: cargo xtask soak"]
fn soak_leases_hold_in_every_schedule() {
    std::thread::scope(|scope| {
        let both = scope.spawn(|| simulate(0..100_000, Faults::Both));
        simulate(0..100_000, Faults::Settling).unwrap();
        both.join().unwrap().unwrap();
    });
}

#[test]
fn a_worker_that_does_not_renew_finished_work_is_caught() {
    let caught = simulate(0..1_000, Faults::FinishedIsNotRenewed);
    assert!(caught.unwrap_err().contains("handled 2 times"));
}

#[test]
fn a_transport_that_does_not_flag_redeliveries_is_caught() {
    let caught = simulate(0..1_000, Faults::NothingIsFlagged);
    assert!(caught.unwrap_err().contains("was not told"));
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Faults {
    Settling,
    Both,
    /// As if a worker did not renew what it has finished.
    FinishedIsNotRenewed,
    NothingIsFlagged,
}

fn simulate(seeds: Range<u64>, faults: Faults) -> Result<(), String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let only = env::var("BEZOAR_RENEWALS_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in only.map_or(seeds, |seed| seed..seed + 1) {
        runtime
            .block_on(World::new(seed, faults).run())
            .map_err(|wrong| format!("BEZOAR_RENEWALS_SEED={seed}: {wrong}"))?;
    }
    Ok(())
}

/// One small world: a few messages, a worker or two, and outages.
#[derive(Clone)]
struct World {
    memory: MemoryTransport,
    clock: Arc<VirtualClock>,
    faults: Faults,
    /// When outcomes cannot be stored, and when leases cannot be renewed.
    settling: Range<Instant>,
    renewing: Range<Instant>,
    random: Arc<Mutex<StdRng>>,
    runs: Arc<Mutex<Runs>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

#[derive(Default)]
struct Runs {
    running: HashMap<MessageId, u32>,
    handled: HashMap<MessageId, u32>,
    wrong: Option<String>,
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let clock = Arc::new(VirtualClock::default());
        let memory = MemoryTransport::new(Options { clock: clock.clone(), ..Options::default() });
        let outage = |random: &mut StdRng| {
            let start = Instant::now() + random.random_range(Duration::ZERO..2 * LEASE);
            start..start + random.random_range(Duration::ZERO..3 * LEASE)
        };
        let (settling, renewing) = (outage(&mut random), outage(&mut random));
        let random = Arc::new(Mutex::new(random));
        Self { memory, clock, faults, settling, renewing, random, runs: Arc::default() }
    }

    fn chance<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        draw(&mut self.random.lock().unwrap())
    }

    async fn run(self) -> Result<(), String> {
        self.memory.provision(&lab()).await.unwrap();
        let shutdown = Shutdown::default();
        let hosts: Vec<_> = (0..self.chance(|it| it.random_range(1..3)))
            .map(|_| tokio::spawn(self.host().run(shutdown.clone())))
            .collect();
        let count = self.chance(|it| it.random_range(1..8));
        for number in 0..count {
            self.send(number).await;
            sleep(self.chance(|it| it.random_range(Duration::ZERO..LEASE / 4))).await;
        }
        self.until_empty().await?;
        shutdown.drain();
        for host in hosts {
            host.await.unwrap().unwrap();
        }
        self.judge(count)
    }

    fn judge(&self, count: u32) -> Result<(), String> {
        let runs = self.runs.lock().unwrap();
        if let Some(wrong) = &runs.wrong {
            return Err(wrong.clone());
        }
        let twice = runs.handled.iter().find(|(_, times)| **times > 1);
        match twice {
            Some((id, times)) if self.faults != Faults::Both => {
                Err(format!("{id} was handled {times} times"))
            }
            _ if runs.handled.len() != count as usize => Err("some were not handled".to_owned()),
            _ => Ok(()),
        }
    }

    async fn send(&self, number: u32) {
        let id = MessageId::new(format!("m-{number}")).unwrap();
        let time = bezoar::Clock::now(&*self.clock);
        let message = Message::new(id, MessageType::new("result").unwrap(), time, "");
        let sent = self.memory.send(&(&lab()).into(), &[message.into()]).await;
        sent.into_iter().map(Result::unwrap).for_each(drop);
    }

    async fn until_empty(&self) -> Result<(), String> {
        for _ in 0..1_000 {
            let Depth { ready, delayed, leased, .. } = self.memory.depth(&lab()).await.unwrap();
            if [ready, delayed, leased] == [Some(0); 3] {
                return Ok(());
            }
            sleep(LEASE / 5).await;
        }
        Err("never idle".to_owned())
    }

    fn host(&self) -> Host {
        let router = Router::with_state(self.clone()).on("result", handle);
        let worker = Worker::new("lab", router)
            .unwrap()
            .lease(LEASE)
            .max_deliveries(1_000)
            .concurrency(self.chance(|it| it.random_range(1..4)))
            .without_observers()
            .deterministic(self.clock.clone(), self.chance(|it| it.random()));
        Host::new().grace(LEASE).worker(Arc::new(Intercepted(self.clone())), worker)
    }

    fn is_unavailable(&self, outage: &Range<Instant>) -> bool {
        outage.contains(&Instant::now())
    }
}

fn lab() -> QueueName {
    QueueName::new("lab").unwrap()
}

/// A handler at work. It ends when it is done, and when it is stopped.
struct Run(World, MessageId);

impl Run {
    fn begin(world: &World, context: &Context) -> Self {
        let id = context.message.id.clone();
        let mut runs = world.runs.lock().unwrap();
        let running = runs.running.entry(id.clone()).or_default();
        *running += 1;
        if *running > 1 {
            runs.wrong.get_or_insert(format!("two handlers have {id}"));
        }
        let handled = runs.handled.entry(id.clone()).or_default();
        *handled += 1;
        if *handled > 1 && !context.redelivered {
            runs.wrong.get_or_insert(format!("who gets {id} again was not told"));
        }
        drop(runs);
        Self(world.clone(), id)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        *self.0.runs.lock().unwrap().running.get_mut(&self.1).unwrap() -= 1;
    }
}

async fn handle(State(world): State<World>, context: Context) {
    let _run = Run::begin(&world, &context);
    let takes = world.chance(|it| match it.random_bool(0.5) {
        true => Duration::from_millis(it.random_range(0..1_000)),
        false => it.random_range(Duration::ZERO..3 * LEASE),
    });
    sleep(takes).await;
}

fn unavailable() -> TransportError {
    TransportError::new(ErrorKind::Unavailable, "memory", "settle")
}

#[async_trait::async_trait]
impl Intercept for World {
    fn inner(&self) -> &dyn Transport {
        &self.memory
    }

    async fn receive(
        &self,
        inner: &dyn Subscription,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let mut received = inner.receive(max, wait).await?;
        if self.faults == Faults::NothingIsFlagged {
            received.iter_mut().for_each(|delivery| delivery.redelivered = false);
        }
        Ok(received)
    }

    async fn settle(
        &self,
        inner: &dyn Subscription,
        batch: Vec<(Delivery, Settlement)>,
    ) -> Vec<Result<(), TransportError>> {
        if self.is_unavailable(&self.settling) {
            return batch.iter().map(|_| Err(unavailable())).collect();
        }
        inner.settle(batch).await
    }

    async fn extend(
        &self,
        inner: &dyn Subscription,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        match self.faults {
            Faults::Both | Faults::NothingIsFlagged if self.is_unavailable(&self.renewing) => {
                deliveries.iter().map(|_| Err(unavailable())).collect()
            }
            Faults::FinishedIsNotRenewed => {
                for delivery in &mut *deliveries {
                    let id = &delivery.message.id;
                    if self.runs.lock().unwrap().running.get(id) != Some(&0) {
                        inner.extend(std::slice::from_mut(delivery), lease).await;
                    }
                }
                deliveries.iter().map(|_| Ok(())).collect()
            }
            _ => inner.extend(deliveries, lease).await,
        }
    }
}

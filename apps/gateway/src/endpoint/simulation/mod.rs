//! Whole routes in virtual time: a real worker on a queue in memory, the real breaker, and an endpoint that fails as
//! it is told. The laws that blame must keep are properties of these runs.

mod controls;
mod endpoint;
mod laws;
mod mixes;

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bezoar::{
    Clock, Context, Event, Message, MessageId, MessageType, Observer, Postpone, QueueName, Reason,
    UncountedPolicy, Worker,
    blame::BlameOptions,
    testing::{Harness, VirtualClock},
};
use jiff::Timestamp;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tower::{BoxError, service_fn};

use self::{
    controls::{Oracle, Rules},
    endpoint::{Simulated, Weather},
};
use super::service::refusal;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// What is simulated.
#[derive(Debug, Clone)]
struct Plan {
    rules: Rules,
    concurrency: u32,
    /// How long the endpoint takes.
    latency: Duration,
    /// How the endpoint does, and until when; healthy after that.
    weather: Vec<(Duration, Weather)>,
    /// How long the endpoint is away when a message crashes it.
    restart: Option<Duration>,
    seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        let latency = Duration::from_millis(10);
        let (rules, weather) = (Rules::Evidence, Vec::new());
        Self { rules, concurrency: 16, latency, weather, restart: None, seed: 1 }
    }
}

/// What a message does to the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Nature {
    Healthy,
    /// It is answered with 500, always.
    Poison,
    /// It makes the endpoint drop the connection, and restart where it does.
    Dropper,
    /// It is answered with 200 and never acknowledged.
    Mute,
}

impl Nature {
    const ALL: [Self; 4] = [Self::Healthy, Self::Poison, Self::Dropper, Self::Mute];

    fn of(message: &Message) -> Self {
        let named = |nature: &Self| format!("{nature:?}") == message.message_type.as_str();
        Self::ALL.into_iter().find(named).expect("simulated messages have these types")
    }
}

/// What became of the messages, and when.
#[derive(Debug, Default)]
struct Report {
    delivered: HashMap<Nature, Vec<Duration>>,
    dead: HashMap<Nature, Vec<Duration>>,
    reasons: Vec<String>,
    /// How long healthy messages took.
    delays: Vec<Duration>,
    requests: u64,
    /// How often each message was sent.
    sent: HashMap<String, u32>,
}

impl Report {
    fn delivered(&self, nature: Nature) -> &[Duration] {
        self.delivered.get(&nature).map_or(&[], Vec::as_slice)
    }

    fn dead(&self, nature: Nature) -> &[Duration] {
        self.dead.get(&nature).map_or(&[], Vec::as_slice)
    }

    fn last_delivery(&self) -> Duration {
        self.delivered(Nature::Healthy).iter().max().copied().unwrap_or_default()
    }

    fn finished(&self) -> usize {
        self.delivered.values().chain(self.dead.values()).map(Vec::len).sum()
    }

    fn sending(&mut self, message: &Message) {
        self.requests += 1;
        *self.sent.entry(message.id.to_string()).or_default() += 1;
    }

    /// How often the message that was sent most often was sent.
    fn most_sent(&self) -> u32 {
        self.sent.values().max().copied().unwrap_or_default()
    }

    fn summary(&self) -> String {
        let healthy = (self.delivered(Nature::Healthy), self.dead(Nature::Healthy));
        let dead = [Nature::Poison, Nature::Dropper].map(|nature| self.dead(nature).len());
        format!(
            "{} healthy delivered, the last after {:.1} s, {} healthy dead; {} poison and {} droppers dead; {} requests",
            healthy.0.len(),
            self.last_delivery().as_secs_f64(),
            healthy.1.len(),
            dead[0],
            dead[1],
            self.requests,
        )
    }
}

/// When messages are sent.
type Arrivals = Vec<(Duration, Nature)>;

/// All at once.
fn at_once(natures: impl IntoIterator<Item = Nature>) -> Arrivals {
    natures.into_iter().map(|nature| (Duration::ZERO, nature)).collect()
}

/// One after the other.
fn every(pause: Duration, natures: impl IntoIterator<Item = Nature>) -> Arrivals {
    (0..).zip(natures).map(|(number, nature)| (pause * number, nature)).collect()
}

/// Runs until every message is delivered or dead, or the time is over.
async fn run(plan: &Plan, arrivals: Arrivals, within: Duration) -> Report {
    let (log, total) = (Arc::new(Log::default()), arrivals.len());
    let lab = Harness::start(worker(plan, &log)).await;
    let sending = async {
        for ((at, nature), number) in arrivals.into_iter().zip(1..) {
            sleep(at.saturating_sub(log.started.elapsed())).await;
            lab.send_message(message(number, nature, log.started.elapsed())).await;
        }
    };
    let finished = async {
        loop {
            let changed = log.changed.notified();
            if log.report().finished() >= total {
                return;
            }
            changed.await;
        }
    };
    let _ = timeout(within, async { tokio::join!(sending, finished) }).await;
    lab.stop().await;
    std::mem::take(&mut *log.report())
}

fn worker(plan: &Plan, log: &Arc<Log>) -> Worker {
    let concurrency = NonZeroU32::new(plan.concurrency).unwrap();
    let oracle = plan.rules.oracle(BlameOptions { concurrency, ..BlameOptions::default() });
    let simulated = Arc::new(Simulated::new(plan));
    let clock = Arc::new(VirtualClock::default());
    let gate = oracle.gate();
    let calls = log.clone();
    let service = service_fn(move |context: Context| {
        let (oracle, simulated) = (oracle.clone(), simulated.clone());
        let (clock, log) = (clock.clone(), calls.clone());
        async move { deliver(&context, &oracle, &simulated, &clock, &log).await }
    });
    Worker::new("lab", service)
        .unwrap()
        .concurrency(plan.concurrency)
        .uncounted(UncountedPolicy::default())
        .without_observers()
        .observer(log.clone())
        .gate(gate)
}

async fn deliver(
    context: &Context,
    oracle: &Oracle,
    simulated: &Simulated,
    clock: &VirtualClock,
    log: &Log,
) -> Result<(), BoxError> {
    let permit = oracle.enter(context).map_err(Postpone)?;
    log.report().sending(&context.message);
    let (outcome, failure) = simulated.call(Nature::of(&context.message)).await;
    let code = failure.as_ref().map_or(super::call_report::OK, |failure| failure.code.clone());
    let judgement = oracle.leave(permit, outcome, &code, clock.now());
    failure.map_or(Ok(()), |failure| Err(refusal(judgement, failure)))
}

/// A message whose time is that of its sending, since the beginning.
fn message(number: u32, nature: Nature, sent: Duration) -> Message {
    let id = MessageId::new(format!("m-{number}")).unwrap();
    let message_type = MessageType::new(format!("{nature:?}")).unwrap();
    let time = Timestamp::from_millisecond(i64::try_from(sent.as_millis()).unwrap()).unwrap();
    Message::new(id, message_type, time, "")
}

fn sent_at(message: &Message) -> Duration {
    Duration::from_millis(u64::try_from(message.time.as_millisecond()).unwrap())
}

#[derive(Debug)]
struct Log {
    started: Instant,
    report: Mutex<Report>,
    changed: Notify,
}

impl Default for Log {
    fn default() -> Self {
        let (report, changed) = (Mutex::default(), Notify::new());
        Self { started: Instant::now(), report, changed }
    }
}

impl Log {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap()
    }
}

impl Observer for Log {
    fn message(&self, _: &QueueName, message: &Message, event: &Event<'_>) {
        let (nature, at) = (Nature::of(message), self.started.elapsed());
        match event {
            Event::Completed => {
                let mut report = self.report();
                report.delivered.entry(nature).or_default().push(at);
                report.delays.push(at.saturating_sub(sent_at(message)));
            }
            Event::DeadLettered { reason, .. } => {
                let mut report = self.report();
                report.dead.entry(nature).or_default().push(at);
                report.reasons.push(Reason::to_string(reason));
            }
            _ => return,
        }
        self.changed.notify_waiters();
    }
}

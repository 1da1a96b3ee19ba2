//! Workers in virtual time, for tests of handlers.
//!
//! ```
//! use bezoar::{Json, Router, Worker, testing::Harness};
//!
//! async fn store(Json(value): Json<f64>) -> Result<(), std::io::Error> {
//!     if value > 0.0 { Ok(()) } else { Err(std::io::Error::other("implausible")) }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! // within #[tokio::test(start_paused = true)]
//! let lab = Harness::start(Worker::new("lab", Router::new().on("result", store))?).await;
//! lab.send("result", &14.1).await;
//! lab.send("result", &-1.0).await;
//! lab.until_idle().await; // four attempts and seven seconds of backoff, at once
//!
//! let dead = lab.dead_letters().await;
//! assert_eq!(dead.len(), 1);
//! assert_eq!(dead[0].reason.to_string(), "max retries (3) exhausted");
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock, DeadLetter, DeadLetterIds, DeadLetterPage, Depth, Message, MessageId, QueueName, millis,
    to_millis,
};
use bezoar_memory::{MemoryTransport, Options};
use bezoar_runtime::{Event, Host, Observer, RunError, Shutdown, TypedMessage, Worker};
use jiff::Timestamp;
use serde::Serialize;
use tokio::{sync::Notify, task::JoinHandle, time::Instant};

use crate::Bezoar;

const ACCESS: &str = "queues in memory give access to their dead letters";
/// How long a worker may be busy, in virtual time.
const LONGEST_WAIT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// A worker on a queue in memory. Meant for a runtime whose time is paused, where waiting takes no time.
///
/// Whatever fails panics, as is useful in tests.
#[derive(Debug)]
pub struct Harness {
    bezoar: Bezoar,
    queue: QueueName,
    changed: Arc<Notify>,
    shutdown: Shutdown,
    running: JoinHandle<Result<(), RunError>>,
}

impl Harness {
    /// Starts the worker. What is random is the same in every run.
    pub async fn start(worker: Worker) -> Self {
        Self::start_with(|_| worker).await
    }

    /// Starts a worker whose handlers send: it is made with the [`Bezoar`] that the harness works on.
    ///
    /// ```
    /// use bezoar::{Bezoar, Failure, Json, Router, State, Worker, testing::Harness};
    ///
    /// async fn forward(Json(value): Json<f64>, State(bezoar): State<Bezoar>) -> Result<(), Failure> {
    ///     bezoar.send("archive", "result", &value).await?;
    ///     Ok(())
    /// }
    ///
    /// fn worker(bezoar: Bezoar) -> Worker {
    ///     let router = Router::with_state(bezoar).on("result", forward);
    ///     Worker::new("lab", router).expect("a name for a queue")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
    /// let lab = Harness::start_with(worker).await;
    /// lab.bezoar().provision("archive").await?;
    /// lab.send("result", &14.1).await;
    /// lab.until_idle().await;
    ///
    /// let archive = bezoar::QueueName::new("archive")?;
    /// assert_eq!(lab.bezoar().admin().depth(&archive).await?.ready, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn start_with(worker: impl FnOnce(Bezoar) -> Worker) -> Self {
        let clock = Arc::new(VirtualClock::default());
        let transport =
            MemoryTransport::new(Options { clock: clock.clone(), ..Options::default() });
        let bezoar = Bezoar::new(transport).with_clock(clock.clone());
        let worker = worker(bezoar.clone());
        let queue = worker.queue().clone();
        bezoar.admin().provision(&queue).await.expect("memory has room for a queue");
        let (changed, shutdown) = (Arc::new(Notify::new()), Shutdown::default());
        let worker =
            worker.deterministic(clock, 0).observer(Arc::new(NotifyOnEvent(changed.clone())));
        let host = Host::new().worker(bezoar.transport().clone(), worker);
        let running = tokio::spawn(host.run(shutdown.clone()));
        Self { bezoar, queue, changed, shutdown, running }
    }

    /// The queues that the worker works on, in memory and by the virtual clock. Other queues are not
    /// worked on, and [`until_idle`](Self::until_idle) does not wait for them.
    pub fn bezoar(&self) -> &Bezoar {
        &self.bezoar
    }

    /// Sends a value as JSON.
    pub async fn send(&self, message_type: &str, value: &impl Serialize) -> MessageId {
        let sent = self.bezoar.publisher().send(&self.queue, message_type, value).await;
        sent.expect("the queue takes every message that is small enough")
    }

    /// Sends a value whose type of message is known, as JSON.
    pub async fn send_typed<T: TypedMessage + Serialize>(&self, value: &T) -> MessageId {
        self.send(T::TYPE, value).await
    }

    /// Sends a message as it is.
    pub async fn send_message(&self, message: Message) -> MessageId {
        let sent = self.bezoar.publisher().prepared(message).send_to(&self.queue).await;
        sent.expect("the queue takes every message that is small enough")
    }

    /// Waits until every message is done or dead, retries included.
    pub async fn until_idle(&self) {
        let idle = async {
            loop {
                let changed = self.changed.notified();
                let Depth { ready, delayed, leased, .. } = self.depth().await;
                if [ready, delayed, leased].into_iter().flatten().sum::<u64>() == 0 {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(LONGEST_WAIT, idle).await;
        waited.expect("the queue should be idle within 400 days of virtual time");
    }

    /// How many messages are where.
    pub async fn depth(&self) -> Depth {
        self.bezoar.admin().depth(&self.queue).await.expect("the queue was provisioned")
    }

    /// All dead letters.
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let mut page = DeadLetterPage::default();
        let mut all = Vec::new();
        loop {
            let access = self.bezoar.admin().dead_letter_access().expect(ACCESS);
            let more = access.dead_letters(&self.queue, page).await;
            let more = more.expect("the queue was provisioned");
            let Some(last) = more.last() else { return all };
            page.after = Some(last.id);
            all.extend(more);
        }
    }

    /// Sends all dead letters back.
    pub async fn replay(&self) -> u64 {
        let access = self.bezoar.admin().dead_letter_access().expect(ACCESS);
        let replayed = access.replay(&self.queue, &DeadLetterIds::All).await;
        replayed.expect("the queue was provisioned")
    }

    /// Stops the worker gracefully.
    pub async fn stop(self) {
        self.shutdown.drain();
        let ran = self.running.await.expect("the worker does not panic");
        ran.expect("the worker does not panic");
    }
}

#[derive(Debug)]
struct NotifyOnEvent(Arc<Notify>);

impl Observer for NotifyOnEvent {
    fn message(&self, _: &QueueName, _: &Message, _: &Event<'_>) {
        self.0.notify_waiters();
    }
}

/// A clock that follows tokio's time, which tests can pause.
#[derive(Debug)]
pub struct VirtualClock(Instant);

impl Default for VirtualClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for VirtualClock {
    /// The time since the clock was made, from a day in September 2001 on.
    fn now(&self) -> Timestamp {
        millis(1_000_000_000_000 + to_millis(self.0.elapsed()))
    }
}

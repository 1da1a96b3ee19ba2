//! Tasks that run handlers, one message after the other.
//!
//! A task for each message would cost more than many handlers do. So received messages wait in a line, and a *runner*,
//! a task, handles one after the other. Only as many runners are busy as the runtime has threads, because no more can
//! run at a time. A runner whose handler waits for something is not busy, and another one takes its place. Some runners
//! stay when the line is empty, because a task is expensive to start.
//!
//! No handler holds up other messages for long. If the line does not move, because handlers compute or block, each
//! message in it gets a runner of its own: their threads may not be those of the runtime. A runner lets other
//! tasks run after a short time, so that outcomes are stored and leases renewed meanwhile.

use std::{
    collections::VecDeque,
    future::pending,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt, poll};
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, mpsc},
    task::yield_now,
    time::{Instant, sleep},
};

use crate::{
    lease_keeper::Held,
    process::Process,
    settler::Settled,
    tasks::{Spawner, report_panic},
};

/// How long messages wait in a line that does not move before each gets a runner.
const STALL: Duration = Duration::from_millis(2);
/// How long a runner runs before other tasks have their turn.
const SHARE: Duration = Duration::from_micros(200);
/// How many outcomes a runner gathers before it passes them on.
const GATHERED: usize = 32;
/// How many runners stay when there is nothing to do.
const IDLE_LIMIT: usize = 256;

/// A message and the slot that it occupies.
type InSlot = (Held, OwnedSemaphorePermit);

/// The runners of a consumer, and the messages that wait for one.
#[derive(Debug)]
pub(crate) struct Runners {
    process: Arc<Process>,
    outbox: mpsc::Sender<Settled>,
    tasks: Spawner,
    /// How many runners may be busy.
    threads: usize,
    /// How many outcomes a runner gathers: no more than the outbox has room for.
    gathered: usize,
    line: Mutex<Line>,
    /// Wakes an idle runner.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<InSlot>,
    /// How many runners occupy a thread, or will as soon as one is free.
    busy: usize,
    /// How many runners wait to be wanted.
    idle: usize,
    /// Whether runners end when there is nothing to do.
    is_closed: bool,
}

impl Line {
    /// Counts a runner as busy or not; `counted` is what it counts as.
    fn count(&mut self, counted: &mut bool, busy: bool) {
        self.busy -= usize::from(*counted);
        self.busy += usize::from(busy);
        *counted = busy;
    }
}

impl Runners {
    /// To be called in the runtime on which the handlers will run.
    pub(crate) fn new(
        process: Arc<Process>,
        outbox: mpsc::Sender<Settled>,
        tasks: Spawner,
    ) -> Self {
        Self {
            process,
            gathered: outbox.max_capacity().min(GATHERED),
            outbox,
            tasks,
            threads: Handle::current().metrics().num_workers(),
            line: Mutex::default(),
            wanted: Notify::new(),
        }
    }

    /// Handles messages after those that wait already.
    pub(crate) fn handle(self: &Arc<Self>, messages: Vec<InSlot>) {
        let mut line = self.line();
        line.waiting.extend(messages);
        self.start_missing(line);
    }

    /// Waits until messages have waited for too long; forever if none waits.
    pub(crate) async fn stalled(&self) {
        if self.line().waiting.is_empty() {
            return pending().await;
        }
        sleep(STALL).await;
    }

    /// Starts a runner for each waiting message.
    pub(crate) fn start_for_each(self: &Arc<Self>) {
        let line = self.line();
        let count = line.waiting.len();
        self.start(line, count);
    }

    /// Has the runners end after the last message. Each message that waits gets one, because nobody notices any more
    /// whether they wait for long.
    pub(crate) fn close(self: &Arc<Self>) {
        self.start_for_each();
        let mut line = self.line();
        line.is_closed = true;
        line.busy += std::mem::take(&mut line.idle);
        drop(line);
        self.wanted.notify_waiters();
    }

    /// Starts runners for waiting messages, if more can be busy.
    fn start_missing(self: &Arc<Self>, line: MutexGuard<'_, Line>) {
        let count = line.waiting.len().min(self.threads.saturating_sub(line.busy));
        self.start(line, count);
    }

    fn start(self: &Arc<Self>, mut line: MutexGuard<'_, Line>, count: usize) {
        let woken = count.min(line.idle);
        line.idle -= woken;
        line.busy += count;
        drop(line); // a runner locks it, also if it is dropped because the runtime ends
        (0..woken).for_each(|_| self.wanted.notify_one());
        let runner = |_| Runner { of: self.clone(), is_busy: true };
        (woken..count).map(runner).for_each(|runner| self.tasks.spawn(runner.run()));
    }

    /// Passes outcomes on to be stored, and then frees their slots.
    async fn pass_on(&self, done: &mut Done) {
        // Closed only during an immediate stop.
        if let Ok(room) = self.outbox.reserve_many(done.settled.len()).await {
            room.zip(done.settled.drain(..)).for_each(|(place, settled)| place.send(settled));
        }
        *done = Done { settled: std::mem::take(&mut done.settled), ..Done::default() };
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that handles waiting messages.
struct Runner {
    of: Arc<Runners>,
    /// Whether it counts as busy.
    is_busy: bool,
}

/// Outcomes that a runner has gathered.
#[derive(Default)]
struct Done {
    settled: Vec<Settled>,
    slots: Option<OwnedSemaphorePermit>,
}

type Handled = std::thread::Result<Option<Settled>>;

impl Runner {
    async fn run(mut self) {
        self.handle_waiting().await;
        while self.is_wanted().await {
            self.handle_waiting().await;
        }
    }

    /// Handles messages until none waits.
    async fn handle_waiting(&mut self) {
        let (of, mut done, mut since) = (self.of.clone(), Done::default(), Instant::now());
        while let Some((held, slot)) = self.next() {
            let mut handling = pin!(AssertUnwindSafe(of.process.run(held)).catch_unwind());
            // Many handlers finish at their first poll.
            let handled = match poll!(handling.as_mut()) {
                Poll::Ready(handled) => handled,
                Poll::Pending => {
                    let handled = self.wait(handling, &mut done).await;
                    since = Instant::now();
                    handled
                }
            };
            done.add(handled, slot);
            if done.settled.len() >= of.gathered || since.elapsed() >= SHARE {
                of.pass_on(&mut done).await;
                yield_now().await;
                since = Instant::now();
            }
        }
        of.pass_on(&mut done).await;
    }

    /// Takes the next message; without one, it is not busy any more.
    fn next(&mut self) -> Option<InSlot> {
        let Self { of, is_busy } = self;
        let mut line = of.line();
        let next = line.waiting.pop_front();
        line.count(is_busy, next.is_some());
        next
    }

    /// Waits for a handler that is pending. Meanwhile another runner takes this one's place, and what is done already is
    /// passed on.
    async fn wait(&mut self, handling: impl Future<Output = Handled>, done: &mut Done) -> Handled {
        self.step_aside();
        match done.slots {
            None => handling.await,
            Some(_) => futures_util::join!(handling, self.of.pass_on(done)).0,
        }
    }

    /// Waits until it is wanted; returns `false` if it should end.
    async fn is_wanted(&mut self) -> bool {
        let of = self.of.clone();
        let mut wanted = pin!(of.wanted.notified());
        {
            let mut line = of.line();
            if line.is_closed || line.idle >= IDLE_LIMIT {
                return false;
            }
            line.idle += 1;
            wanted.as_mut().enable(); // before it can be counted as woken
        }
        wanted.await;
        self.is_busy = true; // whoever woke it has counted it
        true
    }

    fn step_aside(&mut self) {
        let Self { of, is_busy } = self;
        let mut line = of.line();
        line.count(is_busy, false);
        of.start_missing(line);
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if self.is_busy {
            self.of.line().busy -= 1; // it was aborted
        }
    }
}

impl Done {
    fn add(&mut self, handled: Handled, slot: OwnedSemaphorePermit) {
        match handled {
            Ok(settled) => self.settled.extend(settled),
            Err(_) => report_panic(),
        }
        match &mut self.slots {
            Some(slots) => slots.merge(slot),
            none => *none = Some(slot),
        }
    }
}

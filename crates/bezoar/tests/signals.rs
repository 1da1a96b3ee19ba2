//! Real signals to a real process: the first lets handlers finish, the second hands messages back.
//!
//! As in `kill.rs`, the parent starts this binary again as a child. The child's handler hears the same
//! signals and leaves files as signs, so that the parent knows how far it is.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use bezoar::{Bezoar, Failure, QueueName, Router, State, SubscribeOptions, Worker};
use tokio::signal::unix::{SignalKind, signal};

/// Enough for a signal to be seen by all who listen within a process.
const MOMENT: Duration = Duration::from_millis(300);
/// Less than the 30 s of grace, so that waiting for these is noticed.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_first_signal_lets_the_running_handler_finish_and_starts_no_other() {
    let lab = Lab::start("finishes").await;
    lab.wait_for("started");
    let status = lab.terminate().wait();
    assert!(status.success(), "{status}");
    assert!(lab.has("finished"), "the handler that ran was waited for");
    // Of two messages one is done; the other was not begun.
    assert_eq!(lab.left("lab").await, (1, 0, 0));
}

#[tokio::test]
async fn the_second_signal_stops_at_once_and_hands_the_message_back() {
    let lab = Lab::start("hangs").await;
    lab.wait_for("started");
    let lab = lab.terminate();
    lab.wait_for("heard");
    tokio::time::sleep(MOMENT).await;
    let lab = lab.still_runs();
    let status = lab.terminate().wait();
    assert!(status.success(), "{status}");
    assert!(!lab.has("finished"));
    assert_eq!(lab.left("lab").await, (2, 0, 0));

    let messages = lab.all("lab").await;
    let ledgers: Vec<_> = messages.iter().map(|message| &message.ledger).collect();
    assert!(ledgers.iter().all(|ledger| ledger.failed == 0), "no attempt was used up: {ledgers:?}");
    assert_eq!(ledgers.iter().map(|ledger| ledger.released).sum::<u32>(), 1, "{ledgers:?}");
}

#[tokio::test]
async fn one_signal_stops_all_workers() {
    let lab = Lab::start("finishes").await;
    lab.wait_for("started");
    lab.wait_for("started-ward");
    let status = lab.terminate().wait();
    assert!(status.success(), "{status}");
    assert!(lab.has("finished") && lab.has("finished-ward"));
    assert_eq!(lab.left("ward").await, (0, 0, 0));
}

#[tokio::test]
#[ignore = "the child that the tests above start and stop"]
async fn the_child_that_gets_signals() {
    let folder = PathBuf::from(env::var_os("BEZOAR_SIGNALS_FOLDER").expect("started by a test"));
    let bezoar = open(&folder).await;
    let handler = Handler { folder, hangs: env::var("BEZOAR_SIGNALS_HANDLER").unwrap() == "hangs" };
    let worker = |queue: &str| {
        let router = Router::with_state(handler.clone()).fallback(handle);
        Worker::new(queue, router).unwrap().concurrency(1)
    };
    bezoar.run_all([worker("lab"), worker("ward")]).await.unwrap();
}

#[derive(Clone)]
struct Handler {
    folder: PathBuf,
    hangs: bool,
}

async fn handle(State(handler): State<Handler>, queue: QueueName) -> Result<(), Failure> {
    let sign = |name: &str| {
        let of_queue = if queue.as_str() == "lab" { String::new() } else { format!("-{queue}") };
        std::fs::write(handler.folder.join(format!("{name}{of_queue}")), "")
    };
    let mut terminated = signal(SignalKind::terminate())?;
    sign("started")?;
    terminated.recv().await;
    sign("heard")?;
    if handler.hangs && queue.as_str() == "lab" {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(MOMENT).await;
    Ok(sign("finished")?)
}

async fn open(folder: &Path) -> Bezoar {
    bezoar::connect(&format!("sqlite:{}", folder.join("lab.db").display())).await.unwrap()
}

/// A child at work on two messages in `lab` and one in `ward`.
struct Lab {
    folder: tempfile::TempDir,
    child: std::cell::RefCell<Child>,
}

impl Lab {
    async fn start(handler: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bezoar = open(folder.path()).await;
        for queue in ["lab", "ward", "lab"] {
            bezoar.provision(queue).await.unwrap();
            bezoar.send(queue, "result", &1).await.unwrap();
        }
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_that_gets_signals", "--ignored", "--nocapture"])
            .env("BEZOAR_SIGNALS_FOLDER", folder.path())
            .env("BEZOAR_SIGNALS_HANDLER", handler)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { folder, child: child.into() }
    }

    fn has(&self, sign: &str) -> bool {
        self.folder.path().join(sign).exists()
    }

    fn wait_for(&self, sign: &str) {
        self.until(sign, || self.has(sign).then_some(()));
    }

    fn terminate(&self) -> &Self {
        let id = self.child.borrow().id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self
    }

    fn still_runs(&self) -> &Self {
        assert_eq!(self.child.borrow_mut().try_wait().unwrap(), None, "it waits for its handler");
        self
    }

    fn wait(&self) -> ExitStatus {
        self.until("the end", || self.child.borrow_mut().try_wait().unwrap())
    }

    fn until<T>(&self, what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(value) = happened() {
                return value;
            }
            assert!(started.elapsed() < PATIENCE, "waiting for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many messages are ready, leased and dead.
    async fn left(&self, queue: &str) -> (u64, u64, u64) {
        let queue = QueueName::new(queue).unwrap();
        let depth = open(self.folder.path()).await.admin().depth(&queue).await.unwrap();
        (depth.ready.unwrap(), depth.leased.unwrap(), depth.dead.unwrap())
    }

    async fn all(&self, queue: &str) -> Vec<bezoar::Message> {
        let bezoar = open(self.folder.path()).await;
        let queue = QueueName::new(queue).unwrap();
        let subscription = bezoar.transport().subscribe(&queue, SubscribeOptions::default());
        let subscription = subscription.await.unwrap();
        let ten = std::num::NonZeroU32::new(10).unwrap();
        let deliveries = subscription.receive(ten, Duration::ZERO).await.unwrap();
        deliveries.into_iter().map(|delivery| (*delivery.message).clone()).collect()
    }
}

impl Drop for Lab {
    /// A test that failed leaves no child behind.
    fn drop(&mut self) {
        let _ = self.child.get_mut().kill();
        let _ = self.child.get_mut().wait();
    }
}

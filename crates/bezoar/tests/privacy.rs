//! Nothing that a message, its headers or an error says gets into a log.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    io::{self, Write},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar::{
    AttemptNumber, Backoff, Bezoar, Context, Event, Failure, Jitter, Json, Message, Observer,
    QueueName, RetryPolicy, Router, Shutdown, Worker,
};
use tokio::sync::Notify;

/// Stands for somebody's name.
const CANARY: &str = "Wellensittich";

/// Everything that was logged. Clones are the same.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One test, since the subscriber is the whole process's: transports log from threads of their own.
#[tokio::test]
async fn no_log_shows_body_header_or_error_at_any_level() {
    let captured = Captured::default();
    let writer = captured.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(move || writer.clone())
        .init();

    let folder = tempfile::tempdir().unwrap();
    for url in ["memory:", &format!("sqlite:{}", folder.path().join("lab.db").display())] {
        work(&bezoar::connect(url).await.unwrap()).await;
    }
    let log = captured.text();
    for word in [
        "attempt 1 failed at try 2",
        "retry 1 of 2",
        "dead-lettered",
        "completed",
        "[hidden",
        "careful",
    ] {
        assert!(log.contains(word), "{word} is not in\n{log}");
    }
    let shown: Vec<_> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(shown.is_empty(), "{shown:#?}");

    // The negative control: what is logged on purpose is found.
    tracing::trace!("{CANARY}");
    assert!(captured.text().contains(CANARY));
}

/// Sends messages that succeed, fail, cannot be read, have no handler, panic; until all are done or dead.
async fn work(bezoar: &Bezoar) {
    bezoar.provision("lab").await.unwrap();
    let types = ["good", "fails", "permanent", "undecodable", "panics", "unheard-of"];
    let message = |kind: &&str| {
        let message = bezoar.message_of_type(kind, &CANARY).build().unwrap().message;
        message.with_header("patient", CANARY)
    };
    let sent = bezoar.publisher().send_batch("lab", types.iter().map(message)).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");

    let (ended, shutdown) = (Arc::new(Ended::default()), Shutdown::default());
    let running = tokio::spawn({
        let (bezoar, shutdown, worker) =
            (bezoar.clone(), shutdown.clone(), worker().observer(ended.clone()));
        async move { bezoar.run_until(worker, shutdown).await }
    });
    let all = async {
        while *ended.count.lock().unwrap() < types.len() {
            ended.one.notified().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
    assert_eq!(bezoar.dead_letters("lab").await.unwrap().len(), 5);
    shutdown.drain();
    running.await.unwrap().unwrap();
}

fn worker() -> Worker {
    #[tracing::instrument]
    async fn good(body: Json<String>, context: Context) {
        assert!(body.0 == CANARY);
        tracing::info!(?context.message, ?body, "careful");
    }
    async fn fails() -> Result<(), Failure> {
        let source = io::Error::other(format!("patient {CANARY} is not in the file"));
        Err(anyhow::Error::new(source).context(format!("{CANARY} not stored")))?
    }
    async fn permanent() -> Result<(), Failure> {
        Err(Failure::permanent(CANARY))
    }
    async fn undecodable(_: Json<f64>) {} // serde's text quotes the body
    async fn panics(_: AttemptNumber) {
        std::panic::resume_unwind(Box::new(CANARY)); // does not run the hook, see below
    }
    let router = Router::new()
        .on("good", good)
        .on("fails", fails)
        .on("permanent", permanent)
        .on("undecodable", undecodable)
        .on("panics", panics);
    let soon = Backoff::Fixed { delay: Duration::from_millis(1) };
    let policy = RetryPolicy::new(2, soon, Duration::from_secs(1), Jitter::None).unwrap();
    Worker::new("lab", router).unwrap().policy(policy).immediate_retries(1)
}

/// Counts messages that are done or dead, and logs all that an observer can.
#[derive(Debug, Default)]
struct Ended {
    count: Mutex<usize>,
    one: Notify,
}

impl Observer for Ended {
    fn message(&self, queue: &QueueName, message: &Message, event: &Event<'_>) {
        tracing::trace!(%queue, ?message, ?event);
        if matches!(event, Event::Completed | Event::DeadLettered { .. }) {
            *self.count.lock().unwrap() += 1;
            self.one.notify_one();
        }
    }
}

#[test]
fn quiet_panics_withhold_what_a_panic_said() {
    let stderr = |quiet: &str| {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_that_panics", "--ignored", "--nocapture"])
            .env("BEZOAR_QUIET", quiet)
            .output()
            .unwrap();
        String::from_utf8(child.stderr).unwrap()
    };
    let quiet = stderr("yes");
    assert!(quiet.contains("panicked at") && quiet.contains("privacy.rs"), "{quiet}");
    assert!(!quiet.contains(CANARY), "{quiet}");
    assert!(stderr("no").contains(CANARY), "the negative control");
}

#[test]
#[ignore = "the child that the test above starts"]
fn the_child_that_panics() {
    if env::var("BEZOAR_QUIET").unwrap() == "yes" {
        bezoar::quiet_panics();
    }
    panic!("{CANARY}");
}

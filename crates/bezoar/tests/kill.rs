//! Nothing is lost when the process is killed, again and again, under load.
//!
//! The parent starts this binary again as a child, which sends, works, fails, retries and dead-letters,
//! and notes in a journal what it was promised. The parent kills it with -9 at random moments, and in
//! the end compares the journal with the database.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{HashMap, HashSet},
    env,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bezoar::{
    AttemptNumber, Bezoar, Body, Clock, DeadLetterPage, Depth, Failure, Message, MessageId,
    MessageType, QueueName, RetryPolicy, Router, Shutdown, State, SystemClock, Worker,
};

const CONCURRENCY: u32 = 32;
const PRODUCERS: u32 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_the_process_is_killed_under_load() {
    let cycles = env::var("BEZOAR_KILL_CYCLES").map_or(30, |text| text.parse().unwrap());
    let report = Run::new(Promise::Kept).cycles(cycles).await;
    println!("{cycles} cycles: {report:?}");
    assert!(report.accepted > 50 * cycles as usize, "under load: {report:?}");
    assert!(report.dead > 0 && report.retried > 0, "with failures: {report:?}");
    assert_eq!((report.lost, report.made_up), (0, 0), "{report:?}");
    assert!(report.handled + report.dead >= report.accepted, "{report:?}");
    assert!(report.duplicates <= cycles as usize * CONCURRENCY as usize, "{report:?}");
}

/// The negative control: whoever notes a message as accepted before it is must be caught.
#[tokio::test(flavor = "multi_thread")]
async fn a_promise_made_too_early_is_caught() {
    let report = Run::new(Promise::TooEarly).cycles(10).await;
    assert!(report.lost > 0, "the comparison must notice lost messages: {report:?}");
}

/// When a producer notes that a message was accepted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Promise {
    Kept,
    TooEarly,
}

#[derive(Debug, Default)]
struct Report {
    accepted: usize,
    handled: usize,
    retried: usize,
    dead: usize,
    duplicates: usize,
    lost: usize,
    made_up: usize,
}

struct Run {
    folder: tempfile::TempDir,
    promise: Promise,
}

impl Run {
    fn new(promise: Promise) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), promise }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    async fn cycles(&self, cycles: u32) -> Report {
        File::create(self.journal()).unwrap();
        for cycle in 0..cycles {
            let child = self.start_child();
            // A different moment each time, told by the child's own progress.
            self.kill_after(child, 10_000 + u64::from(cycle * 7919 % 17) * 3_000);
        }
        let bezoar = open(self.folder.path()).await;
        finish(&bezoar, self.folder.path()).await;
        self.compare(&bezoar).await
    }

    fn start_child(&self) -> Child {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_that_is_killed", "--ignored", "--nocapture"])
            .env("BEZOAR_KILL_FOLDER", self.folder.path())
            .env("BEZOAR_KILL_PROMISE", format!("{:?}", self.promise))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn kill_after(&self, mut child: Child, bytes: u64) {
        let size = || self.journal().metadata().unwrap().len();
        let (before, started) = (size(), Instant::now());
        while size() < before + bytes {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            assert!(started.elapsed() < Duration::from_secs(30), "the child makes no progress");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    async fn compare(&self, bezoar: &Bezoar) -> Report {
        let journal = std::fs::read_to_string(self.journal()).unwrap();
        let mut ids: HashMap<&str, HashMap<&str, usize>> = HashMap::new();
        // A line cut off by the kill is no promise.
        for (what, id) in
            journal.lines().filter_map(|line| line.strip_suffix(" .")?.split_once(' '))
        {
            *ids.entry(what).or_default().entry(id).or_default() += 1;
        }
        let of = |what| ids.get(what).cloned().unwrap_or_default();
        let (sending, accepted, handled) = (of("sending"), of("accepted"), of("handled"));
        let dead = dead(bezoar).await;
        let known = |id: &&&str| handled.contains_key(**id) || dead.contains(**id);
        Report {
            accepted: accepted.len(),
            handled: handled.len(),
            retried: of("failed").len(),
            dead: dead.len(),
            duplicates: handled.values().map(|times| times - 1).sum(),
            lost: accepted.keys().filter(|id| !known(id)).count(),
            made_up: handled.keys().filter(|id| !sending.contains_key(**id)).count()
                + dead.iter().filter(|id| !sending.contains_key(id.as_str())).count(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the child that the test above starts and kills"]
async fn the_child_that_is_killed() {
    let folder =
        PathBuf::from(env::var_os("BEZOAR_KILL_FOLDER").expect("started by the test above"));
    let promise = match env::var("BEZOAR_KILL_PROMISE").as_deref() {
        Ok("TooEarly") => Promise::TooEarly,
        _ => Promise::Kept,
    };
    let bezoar = open(&folder).await;
    let journal = Journal::open(&folder);
    for _ in 0..PRODUCERS {
        tokio::spawn(produce(bezoar.clone(), journal.clone(), promise));
    }
    bezoar.run_until(worker(journal), Shutdown::default()).await.unwrap();
}

async fn open(folder: &Path) -> Bezoar {
    let bezoar =
        bezoar::connect(&format!("sqlite:{}", folder.join("lab.db").display())).await.unwrap();
    bezoar.provision("lab").await.unwrap();
    bezoar
}

/// Each line is one write to the end of the file. A kill may cut one off, so each begins with its own line break
/// and the next is not spoilt.
#[derive(Debug, Clone)]
struct Journal(Arc<File>);

impl Journal {
    fn open(folder: &Path) -> Self {
        let file = OpenOptions::new().append(true).open(folder.join("journal")).unwrap();
        Self(Arc::new(file))
    }

    fn note(&self, what: &str, id: &MessageId) {
        (&*self.0).write_all(format!("\n{what} {id} .").as_bytes()).unwrap();
    }
}

async fn produce(bezoar: Bezoar, journal: Journal, promise: Promise) {
    let queue = QueueName::new("lab").unwrap().into();
    let kind = MessageType::new("result").unwrap();
    loop {
        let now = SystemClock.now();
        let id = MessageId::generate(now, &mut rand::rng());
        let message = Message::new(id.clone(), kind.clone(), now, body(&id));
        journal.note("sending", &id);
        if promise == Promise::TooEarly {
            journal.note("accepted", &id);
        }
        let sent = bezoar.transport().send(&queue, &[message.into()]).await;
        if sent.iter().all(Result::is_ok) && promise == Promise::Kept {
            journal.note("accepted", &id);
        }
    }
}

/// A body that its id determines, so that bytes can be compared without keeping them.
fn body(id: &MessageId) -> Body {
    let length = 1 + id.as_str().bytes().map(usize::from).sum::<usize>() % 700;
    id.as_str().bytes().cycle().take(length).collect::<Vec<_>>().into()
}

fn worker(journal: Journal) -> Worker {
    async fn handle(
        message: Arc<Message>,
        State(journal): State<Journal>,
        AttemptNumber(attempt): AttemptNumber,
    ) -> Result<(), Failure> {
        assert!(message.body == body(&message.id), "bytes come out as they went in");
        match message.id.as_str().as_bytes().last() {
            Some(b'0') => Err(Failure::permanent("poison")),
            Some(b'1'..=b'4') if attempt < 3 => {
                journal.note("failed", &message.id);
                Err(Failure::transient("again"))
            }
            _ => {
                journal.note("handled", &message.id);
                Ok(())
            }
        }
    }
    let backoff = bezoar::Backoff::Fixed { delay: Duration::from_millis(20) };
    let policy =
        RetryPolicy::new(3, backoff, Duration::from_secs(1), bezoar::Jitter::None).unwrap();
    let router = Router::with_state(journal).on("result", handle);
    let worker = Worker::new("lab", router).unwrap().policy(policy).lease(Duration::from_secs(1));
    // Each kill is a delivery without an outcome; here that must not set anything aside.
    worker.max_deliveries(1_000).concurrency(CONCURRENCY).without_observers()
}

/// Works off what the last child left behind.
async fn finish(bezoar: &Bezoar, folder: &Path) {
    let shutdown = Shutdown::default();
    let running = tokio::spawn({
        let (bezoar, shutdown, worker) =
            (bezoar.clone(), shutdown.clone(), worker(Journal::open(folder)));
        async move { bezoar.run_until(worker, shutdown).await }
    });
    let queue = QueueName::new("lab").unwrap();
    let idle = async {
        loop {
            let Depth { ready, delayed, leased, .. } = bezoar.admin().depth(&queue).await.unwrap();
            if [ready, delayed, leased] == [Some(0); 3] {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), idle).await.expect("the rest is worked off");
    shutdown.drain();
    running.await.unwrap().unwrap();
}

async fn dead(bezoar: &Bezoar) -> HashSet<String> {
    let queue = QueueName::new("lab").unwrap();
    let mut page = DeadLetterPage::default();
    let mut ids = HashSet::new();
    loop {
        let more =
            bezoar.admin().dead_letter_access().unwrap().dead_letters(&queue, page).await.unwrap();
        let Some(last) = more.last() else { return ids };
        page.after = Some(last.id);
        for dead in &more {
            assert_eq!(dead.reason.to_string(), "non-retryable error: permanent");
            assert!(dead.message.body == body(&dead.message.id), "bytes come out as they went in");
            ids.insert(dead.message.id.to_string());
        }
    }
}

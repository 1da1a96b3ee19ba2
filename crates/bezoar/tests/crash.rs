//! Processes that die. One message in thousands crashes its process: it is dead in the end, and it alone. A process
//! that is killed with all its hands full is back at its rate soon after it is started again.
//!
//! The parent starts this binary again as a child that works on the queue, and again whenever it has died, until
//! nothing is left to do. On the embedded queue, and on a broker where one is given.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::HashMap,
    env,
    fs::{File, OpenOptions},
    io::Write,
    num::NonZeroU32,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bezoar::{
    Bezoar, Clock, DeadLetter, DeadLetterPage, Depth, Message, MessageId, MessageType, Outgoing,
    QueueName, Router, Shutdown, State, SystemClock, Worker,
};

/// How often the child may die: as often as the one message is delivered, and a few more where a broker counts later.
const MOST_DEATHS: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_crashes_its_process_is_the_only_one_dead() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lab.db").display());
    Run::new(folder.path(), url, 1_000).check().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn a_message_that_crashes_its_process_is_the_only_one_dead_on_a_broker() {
    let folder = tempfile::tempdir().unwrap();
    Run::new(folder.path(), env::var("BEZOAR_TEST_AMQP").unwrap(), 1_000).check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_back_at_its_rate_within_a_lease_and_five_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lab.db").display());
    Run { handler: SECOND, ..Run::new(folder.path(), url, 2_000) }.check_recovery().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ: cargo xtask test"]
async fn a_killed_process_is_back_at_its_rate_on_a_broker_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = Run::new(folder.path(), env::var("BEZOAR_TEST_AMQP").unwrap(), 2_000);
    Run { handler: SECOND, ..run }.check_recovery().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the full count: cargo xtask soak"]
async fn soak_one_crasher_in_ten_thousand() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("lab.db").display());
    Run::new(folder.path(), url, 10_000).check().await;
    if let Ok(url) = env::var("BEZOAR_TEST_AMQP") {
        let folder = tempfile::tempdir().unwrap();
        Run::new(folder.path(), url, 10_000).check().await;
    }
}

struct Run {
    folder: PathBuf,
    url: String,
    queue: QueueName,
    messages: usize,
    /// How long a handler takes.
    handler: Duration,
    concurrency: u32,
}

impl Run {
    fn new(folder: &Path, url: String, messages: usize) -> Self {
        let queue = QueueName::new(format!("crash-{:08x}", rand::random::<u32>())).unwrap();
        let handler = Duration::from_millis(20);
        Self { folder: folder.to_owned(), url, queue, messages, handler, concurrency: 64 }
    }

    async fn begin(&self, crasher: Option<usize>) -> Bezoar {
        File::create(self.folder.join("handled")).unwrap();
        let bezoar = bezoar::connect(&self.url).await.unwrap();
        bezoar.provision(self.queue.as_str()).await.unwrap();
        self.send(&bezoar, crasher).await;
        bezoar
    }

    async fn check_recovery(&self) {
        let bezoar = self.begin(None).await;
        let mut child = self.start_child();
        while self.handled().len() < 2 * self.concurrency as usize {
            tokio::time::sleep(SECOND / 20).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut child = self.start_child();
        tokio::time::sleep(LEASE + 5 * SECOND).await;
        let (before, start) = (self.handled().len(), Instant::now());
        tokio::time::sleep(5 * SECOND).await;
        let seconds = start.elapsed().as_secs_f64();
        let rate = (self.handled().len() - before) as f64 / seconds;
        child.kill().unwrap();
        child.wait().unwrap();
        println!("{rate:.1} messages a second of {}", self.concurrency);
        assert!(rate >= 0.9 * f64::from(self.concurrency), "{rate:.1} messages a second");
        assert_eq!(self.dead(&bezoar).await.len(), 0, "nobody is to blame");
    }

    async fn check(&self) {
        let bezoar = self.begin(Some(self.messages / 3)).await;
        let deaths = self.work(&bezoar).await;
        let dead = self.dead(&bezoar).await;
        let ids: Vec<_> = dead.iter().map(|dead| dead.message.id.as_str()).collect();
        assert_eq!(ids, ["crash"], "it alone is dead, after {deaths} deaths");
        let reason = dead[0].reason.to_string();
        assert!(reason.ends_with("times without an outcome"), "{reason}");
        assert!(deaths <= MOST_DEATHS, "the process died {deaths} times");
        let handled = self.handled();
        assert_eq!(handled.len(), self.messages - 1, "all others were handled");
        let twice = handled.values().filter(|times| **times > 1).count();
        println!("{} messages, {deaths} deaths, {twice} handled again", self.messages);
    }

    async fn send(&self, bezoar: &Bezoar, crasher: Option<usize>) {
        let message = |number: usize| {
            let id = if crasher == Some(number) { "crash".to_owned() } else { number.to_string() };
            let (id, of) = (MessageId::new(id).unwrap(), MessageType::new("result").unwrap());
            Outgoing::from(Message::new(id, of, SystemClock.now(), "body"))
        };
        let batch: Vec<_> = (0..self.messages).map(message).collect();
        for sent in bezoar.transport().send(&(&self.queue).into(), &batch).await {
            sent.unwrap();
        }
    }

    /// Starts the child as often as it dies; how often that was.
    async fn work(&self, bezoar: &Bezoar) -> u32 {
        let (started, mut deaths) = (Instant::now(), 0);
        loop {
            let mut child = self.start_child();
            while child.try_wait().unwrap().is_none() {
                assert!(started.elapsed() < Duration::from_secs(300), "it does not come to an end");
                if self.is_done(bezoar).await {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return deaths;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            deaths += 1;
            assert!(deaths < 100, "it dies for ever");
        }
    }

    fn start_child(&self) -> Child {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_child_that_dies", "--ignored", "--nocapture"])
            .env("BEZOAR_CRASH_FOLDER", &self.folder)
            .env("BEZOAR_CRASH_URL", &self.url)
            .env("BEZOAR_CRASH_QUEUE", self.queue.as_str())
            .env("BEZOAR_CRASH_HANDLER_MS", self.handler.as_millis().to_string())
            .env("BEZOAR_CRASH_CONCURRENCY", self.concurrency.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// All but one are handled, and that one is dead.
    async fn is_done(&self, bezoar: &Bezoar) -> bool {
        let Depth { dead, .. } = bezoar.admin().depth(&self.queue).await.unwrap();
        dead > Some(0) && self.handled().len() == self.messages - 1
    }

    async fn dead(&self, bezoar: &Bezoar) -> Vec<DeadLetter> {
        if let Some(access) = bezoar.admin().dead_letter_access() {
            return access.dead_letters(&self.queue, DeadLetterPage::default()).await.unwrap();
        }
        let feed = bezoar.admin().dead_letter_feed(&self.queue).await.unwrap().unwrap();
        let most = NonZeroU32::new(100).unwrap();
        feed.next(most, 2 * SECOND).await.unwrap()
    }

    fn handled(&self) -> HashMap<String, usize> {
        let notes = std::fs::read_to_string(self.folder.join("handled")).unwrap();
        let mut handled = HashMap::new();
        for id in notes.lines().filter_map(|line| line.strip_suffix('.')) {
            *handled.entry(id.to_owned()).or_default() += 1;
        }
        handled
    }
}

/// Where handlers note what they have done, and how long they take.
#[derive(Debug, Clone)]
struct Notes(Arc<File>, Duration);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the child that the tests above start"]
async fn the_child_that_dies() {
    let Some(folder) = env::var_os("BEZOAR_CRASH_FOLDER").map(PathBuf::from) else { return };
    let given = |name: &str| env::var(format!("BEZOAR_CRASH_{name}")).unwrap();
    let notes = OpenOptions::new().append(true).open(folder.join("handled")).unwrap();
    let takes = Duration::from_millis(given("HANDLER_MS").parse().unwrap());
    let bezoar = bezoar::connect(&given("URL")).await.unwrap();
    let router = Router::with_state(Notes(Arc::new(notes), takes)).on("result", handle);
    let worker = Worker::new(given("QUEUE"), router).unwrap();
    let worker = worker.lease(LEASE).concurrency(given("CONCURRENCY").parse().unwrap());
    bezoar.run_until(worker.without_observers(), Shutdown::default()).await.unwrap();
}

async fn handle(State(Notes(notes, takes)): State<Notes>, id: MessageId) {
    tokio::time::sleep(takes).await;
    if id.as_str() == "crash" {
        std::process::abort();
    }
    (&*notes).write_all(format!("{id}.\n").as_bytes()).unwrap();
}

//! A second process: this test program again. It crashes on one message, every time it gets it.

use std::{env, num::NonZeroU32, process::Stdio, sync::Arc, time::Duration};

use bezoar_core::{QueueName, SubscribeOptions, Transport};
use bezoar_rabbitmq::{QueueType, RabbitTransport};
use bezoar_runtime::{Context, Host, Shutdown, Worker};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::sleep,
};
use tower::service_fn;

use super::support::{PATIENCE, options};

/// The id of the message that crashes the process.
pub(crate) const POISON: &str = "poison";
/// How many deliveries without an outcome are allowed.
pub(crate) const MAX_DELIVERIES: u32 = 3;

const TASK: &str = "BEZOAR_TEST_TASK";
const ARGUMENTS: [&str; 4] =
    ["--exact", "broker::process::other_process", "--ignored", "--nocapture"];

/// Runs a task of another test in a second process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other process of other tests, which start it"]
async fn other_process() {
    let Ok(task) = env::var(TASK) else { return };
    let [task, queue_type, queue] = task.split(' ').collect::<Vec<_>>()[..] else { return };
    let queue_type = if queue_type == "quorum" { QueueType::Quorum } else { QueueType::Classic };
    let transport = RabbitTransport::open(options(queue_type)).unwrap();
    match task.split_once(':') {
        Some((_, count)) => lease_and_crash(transport, queue, count.parse().unwrap()).await,
        None => work(transport, queue).await,
    }
}

/// Handles messages as any program does, until it is killed.
async fn work(transport: RabbitTransport, queue: &str) {
    let handler = service_fn(async |context: Context| {
        if context.message.id.as_str() == POISON {
            std::process::abort();
        }
        sleep(Duration::from_millis(20)).await;
        println!("\nhandled {}", context.message.id);
        Ok::<_, std::io::Error>(())
    });
    let worker = Worker::new(queue, handler).unwrap().max_deliveries(MAX_DELIVERIES);
    Host::new().worker(Arc::new(transport), worker).run(Shutdown::default()).await.unwrap();
}

/// Leases `count` messages and crashes: neighbours are lost together with the message that crashes.
async fn lease_and_crash(transport: RabbitTransport, queue: &str, count: usize) {
    let queue = QueueName::new(queue).unwrap();
    let worker = transport.subscribe(&queue, SubscribeOptions::default()).await.unwrap();
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(worker.receive(NonZeroU32::new(16).unwrap(), PATIENCE).await.unwrap());
    }
    std::process::abort();
}

/// The other process. It is killed when this value is dropped.
pub(crate) struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    pub(crate) fn start(task: &str, queue_type: QueueType, queue: &QueueName) -> Self {
        let task = format!("{task} {} {queue}", queue_type.as_str());
        let mut child = Command::new(env::current_exe().unwrap())
            .args(ARGUMENTS)
            .env(TASK, task)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next message that it handled; `None` if it died.
    pub(crate) async fn handled(&mut self) -> Option<String> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if let Some(id) = line.strip_prefix("handled ") {
                return Some(id.to_owned());
            }
        }
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap();
        assert!(!ended.success(), "the process ends only by a crash");
        None
    }
}

//! Groups what many callers send at the same time.
//!
//! A few tasks each store everything that queued up while they were busy, in one transaction. So callers that send one
//! message at a time share round trips and commits, and a lone caller waits for nobody.

use std::sync::Arc;

use bezoar_core::{Acceptance, ErrorKind, MessageId, Outgoing, TransportError};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{
    database::Database,
    error::error,
    send::{Addressed, Stored, store},
    wakes::Wakes,
};

/// How many groups are stored at the same time.
const LANES: usize = 2;
/// How many callers can wait in line; others wait until there is room.
const MAX_WAITING: usize = 4_096;
/// The maximum number of messages in a group, unless one caller sends more.
const GROUP_LIMIT: usize = 1_000;
/// The maximum bytes of bodies in a group, unless one caller sends more.
const GROUP_LIMIT_BYTES: usize = 8 * 1024 * 1024;
/// How often a group is stored again when its outcome is unknown and repeating it is safe.
const MAX_REPETITIONS: u32 = 3;

type Results = Vec<Result<Acceptance, TransportError>>;

/// Sends through shared transactions. The tasks end when the last sender is dropped.
#[derive(Debug)]
pub(crate) struct GroupSender(mpsc::Sender<Job>);

/// What one caller sends to a queue.
#[derive(Debug)]
struct Job {
    messages: Vec<Addressed>,
    reply: oneshot::Sender<Results>,
}

impl Job {
    fn bytes(&self) -> usize {
        self.messages.iter().map(|(_, it)| it.message.body.len()).sum()
    }

    /// Whether sending it twice stores it once.
    fn is_repeatable(&self) -> bool {
        self.messages.iter().all(|(_, it)| it.once.is_some())
    }
}

impl GroupSender {
    pub(crate) fn start(database: &Arc<Database>, wakes: &Wakes) -> Self {
        let (jobs, inbox) = mpsc::channel(MAX_WAITING);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..LANES {
            tokio::spawn(run(database.clone(), wakes.clone(), inbox.clone()));
        }
        Self(jobs)
    }

    /// Sends messages to one queue; one result each, in order. Once it is in line it is sent, also if this future is
    /// dropped.
    pub(crate) async fn send(&self, number: i32, messages: Vec<Outgoing>) -> Results {
        let count = messages.len();
        let (reply, answer) = oneshot::channel();
        let messages = messages.into_iter().map(|it| (number, it)).collect();
        let stopped = |kind| {
            let stopped = error(kind, "send").with_source("the sending task has stopped");
            (0..count).map(|_| Err(stopped.again())).collect()
        };
        match self.0.send(Job { messages, reply }).await {
            Ok(()) => answer.await.unwrap_or_else(|_| stopped(ErrorKind::OutcomeUnknown)),
            Err(_) => stopped(ErrorKind::Unavailable),
        }
    }
}

async fn run(database: Arc<Database>, wakes: Wakes, inbox: Arc<Mutex<mpsc::Receiver<Job>>>) {
    while let Some(jobs) = gather(&mut *inbox.lock().await).await {
        send_group(&database, &wakes, jobs).await;
    }
}

/// The first job in line and those that fit into a group with it; `None` once every sender is dropped.
async fn gather(inbox: &mut mpsc::Receiver<Job>) -> Option<Vec<Job>> {
    let first = inbox.recv().await?;
    let (mut count, mut bytes) = (first.messages.len(), first.bytes());
    let mut jobs = vec![first];
    while count < GROUP_LIMIT
        && bytes < GROUP_LIMIT_BYTES
        && let Ok(job) = inbox.try_recv()
    {
        count += job.messages.len();
        bytes = bytes.saturating_add(job.bytes());
        jobs.push(job);
    }
    Some(jobs)
}

/// Stores a group. If the connection is lost before the answer, jobs that are safe to repeat are repeated, which finds
/// out whether they were stored; the others are told that nobody knows.
async fn send_group(database: &Database, wakes: &Wakes, mut jobs: Vec<Job>) {
    for repetitions_left in (0..=MAX_REPETITIONS).rev() {
        let messages = jobs.iter_mut().flat_map(|job| job.messages.iter().cloned()).collect();
        match store(database, &Arc::new(messages)).await {
            Ok(stored) => return answer(wakes, jobs, stored),
            Err(failed) if failed.kind == ErrorKind::OutcomeUnknown && repetitions_left > 0 => {
                let (repeatable, others) = jobs.into_iter().partition(Job::is_repeatable);
                refuse(others, &failed);
                jobs = repeatable;
            }
            Err(failed) => return refuse(jobs, &failed),
        }
        if jobs.is_empty() {
            return;
        }
    }
}

fn answer(wakes: &Wakes, jobs: Vec<Job>, stored: Vec<Stored>) {
    let mut stored = stored.into_iter();
    for job in jobs {
        let result = |((_, outgoing), stored): (&Addressed, Stored)| match stored {
            Stored::Now => Ok(Acceptance::New),
            Stored::Before => Ok(Acceptance::Repeated),
            Stored::Conflict => Err(conflict(&outgoing.message.id)),
        };
        let results = job.messages.iter().zip(stored.by_ref()).map(result).collect();
        if let Some((number, _)) = job.messages.first() {
            wakes.wake(*number);
        }
        let _ = job.reply.send(results); // nobody waits any more: the messages are stored all the same
    }
}

fn refuse(jobs: Vec<Job>, failed: &TransportError) {
    for job in jobs {
        let _ = job.reply.send(job.messages.iter().map(|_| Err(failed.again())).collect());
    }
}

fn conflict(id: &MessageId) -> TransportError {
    error(ErrorKind::Conflict(id.clone()), "send")
}

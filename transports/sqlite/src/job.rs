//! Work for the writer: what runs in a transaction, and how its result reaches the caller.

use bezoar_core::{ErrorKind, TransportError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{error::error, session::Session};

/// How many jobs share a transaction at most.
pub(crate) const GROUP_LIMIT: usize = 1024;
/// With how many bytes of messages a transaction takes no further job.
const GROUP_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// Where the result of a job will be.
pub(crate) struct Reply<R> {
    pub(crate) operation: &'static str,
    pub(crate) result: oneshot::Receiver<Result<R, TransportError>>,
}

impl<R> Reply<R> {
    pub(crate) async fn wait(self) -> Result<R, TransportError> {
        let lost = |_| stopped(ErrorKind::OutcomeUnknown, self.operation);
        self.result.await.map_err(lost)?
    }
}

pub(crate) fn stopped(kind: ErrorKind, operation: &'static str) -> TransportError {
    error(kind, operation).with_source("the writer has stopped")
}

pub(crate) trait Job: Send {
    fn run(&mut self, session: &mut Session, connection: &Connection) -> rusqlite::Result<()>;
    fn operation(&self) -> &'static str;
    fn bytes(&self) -> usize;
    fn answer(self: Box<Self>, error: Option<TransportError>);
}

impl std::fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.operation())
    }
}

pub(crate) struct TypedJob<W, H, T, R> {
    pub(crate) operation: &'static str,
    pub(crate) bytes: usize,
    pub(crate) work: W,
    pub(crate) hand_over: H,
    pub(crate) result: Option<T>,
    pub(crate) reply: oneshot::Sender<Result<R, TransportError>>,
}

impl<W, H, T: Send, R: Send> Job for TypedJob<W, H, T, R>
where
    W: FnMut(&mut Session, &Connection) -> rusqlite::Result<T> + Send,
    H: FnOnce(T) -> R + Send,
{
    fn run(&mut self, session: &mut Session, connection: &Connection) -> rusqlite::Result<()> {
        self.result = Some((self.work)(session, connection)?);
        Ok(())
    }

    fn operation(&self) -> &'static str {
        self.operation
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn answer(self: Box<Self>, error: Option<TransportError>) {
        let result = match error {
            Some(error) => {
                // Dropped as if nobody had waited: a claim that may be on disk is undone.
                let may_be_done = error.kind == ErrorKind::OutcomeUnknown;
                drop(self.result.filter(|_| may_be_done).map(self.hand_over));
                Err(error)
            }
            None => {
                let result =
                    self.result.expect("it is answered without an error only after it ran");
                Ok((self.hand_over)(result))
            }
        };
        let _ = self.reply.send(result); // nobody waits any more: the work is done all the same
    }
}

/// Adds what waits in line to the first job, up to the limits of a transaction.
pub(crate) fn gather(inbox: &mut mpsc::Receiver<Box<dyn Job>>, jobs: &mut Vec<Box<dyn Job>>) {
    let mut bytes: usize = jobs.iter().map(|job| job.bytes()).sum();
    while jobs.len() < GROUP_LIMIT
        && bytes < GROUP_LIMIT_BYTES
        && let Ok(job) = inbox.try_recv()
    {
        bytes = bytes.saturating_add(job.bytes());
        jobs.push(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of twice as many jobs as can share a transaction do, of so many bytes each.
    fn gathered(bytes: usize) -> usize {
        let (sender, mut inbox) = mpsc::channel::<Box<dyn Job>>(2 * GROUP_LIMIT);
        for _ in 0..2 * GROUP_LIMIT {
            let (reply, _) = oneshot::channel();
            let work = |_: &mut Session, _: &Connection| Ok(());
            let hand_over = |()| ();
            let job = TypedJob { operation: "send", bytes, work, hand_over, result: None, reply };
            sender.try_send(Box::new(job)).unwrap();
        }
        let mut jobs = Vec::from_iter(inbox.try_recv());
        gather(&mut inbox, &mut jobs);
        jobs.len()
    }

    #[test]
    fn a_transaction_is_bounded_in_jobs_and_in_bytes() {
        assert_eq!(gathered(0), GROUP_LIMIT);
        assert_eq!(gathered(GROUP_LIMIT_BYTES / 4), 4);
        assert_eq!(gathered(GROUP_LIMIT_BYTES - 1), 2);
        assert_eq!(gathered(usize::MAX), 1);
    }
}

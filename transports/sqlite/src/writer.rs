//! The single thread that writes.
//!
//! It takes all jobs that queued up while the last commit waited for the disk, runs them in one
//! transaction, and answers them after the commit. If SQLite refuses a job, the transaction is rolled
//! back and each job runs again in a transaction of its own. Unlike savepoints, this costs nothing in
//! the normal case. An error that no job caused, such as a lock of another process or a failing disk,
//! is returned to all jobs at once, because each would only fail again.
//!
//! Between the commit and the answers it checks that the commit is in the files that others will read
//! (`database_files.rs`, `wal.rs`). It checkpoints after the answers, so that no caller waits for
//! that.

use std::{sync::Arc, thread, time::Duration};

use bezoar_core::{ErrorKind, TransportError};
use rusqlite::{Connection, config::DbConfig};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Options, database,
    database_files::{BLOCKED_LOG, DatabaseFiles, LOG_WARNING_BYTES},
    error::{breaks_the_connection, error, from_sqlite, is_busy, may_be_committed},
    job::{GROUP_LIMIT, Job, Reply, TypedJob, gather, stopped},
    monotonic_clock::ClockJumpDetector,
    queue_signals::QueueSignals,
    session::Session,
    wal::{self, LogProblem, LogSize, LogWatch},
};

/// The maximum number of queued jobs; further senders wait.
const INBOX_LIMIT: usize = 4096;
/// With how many frames the log is checkpointed: 16 MiB. A page that changes again before that is copied once, and a
/// message that is done by then never.
const CHECKPOINT_FRAMES: u32 = 2_000;

/// A handle to the writer. When the last one is dropped, the queued jobs are run and the database is
/// closed, which copies the log into the database.
#[derive(Debug, Clone)]
pub(crate) struct Writer(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    /// `None` only while the handle is being dropped.
    inbox: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inbox = None;
        // A job may have held the last handle: the thread must not wait for itself.
        if let Some(thread) =
            self.thread.take().filter(|it| it.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Writer {
    /// Starts the thread on an open database.
    pub(crate) fn start(
        connection: Connection,
        files: Arc<DatabaseFiles>,
        options: Arc<Options>,
        signals: QueueSignals,
    ) -> std::io::Result<Self> {
        let (sender, inbox) = mpsc::channel(INBOX_LIMIT);
        let log = LogWatch::start(&files, &connection)?;
        let writer_loop = WriterLoop {
            inbox,
            connection: Some(connection),
            files,
            log,
            log_size: LogSize::default(),
            options,
            signals,
            session: Session::default(),
            jumps: ClockJumpDetector::default(),
            said: Said::default(),
        };
        let named = thread::Builder::new().name("bezoar-sqlite".to_owned());
        let thread = Some(named.spawn(move || writer_loop.work())?);
        Ok(Self(Arc::new(Handle { inbox: Some(sender), thread })))
    }

    fn inbox(&self) -> &mpsc::Sender<Box<dyn Job>> {
        self.0.inbox.as_ref().expect("the inbox exists until the handle is dropped")
    }

    /// Runs `work` in a transaction and returns its result once the transaction is on disk.
    ///
    /// `work` may be run twice; only the last run counts. If the future is dropped, the work may still be
    /// done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnMut(&mut Session, &Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, TransportError> {
        self.queue(operation, 0, work, |result| result).await?.wait().await
    }

    /// Queues `work` with `bytes` of messages, and returns a handle to its result.
    ///
    /// `hand_over` gets the result only if the transaction was, or may have been, committed. So
    /// `work` returns plain data, and `hand_over` creates values that have an effect when they are
    /// dropped.
    pub(crate) async fn queue<T: Send + 'static, R: Send + 'static>(
        &self,
        operation: &'static str,
        bytes: usize,
        work: impl FnMut(&mut Session, &Connection) -> rusqlite::Result<T> + Send + 'static,
        hand_over: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<Reply<R>, TransportError> {
        let (reply, result) = oneshot::channel();
        let job = Box::new(TypedJob { operation, bytes, work, hand_over, result: None, reply });
        let not_queued = |_| stopped(ErrorKind::Unavailable, operation);
        self.inbox().send(job).await.map_err(not_queued)?;
        Ok(Reply { operation, result })
    }

    /// Queues `work` without waiting, if the inbox has room.
    pub(crate) fn submit(
        &self,
        operation: &'static str,
        work: impl FnMut(&mut Session, &Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let (reply, _) = oneshot::channel();
        let hand_over = |()| ();
        let job = TypedJob { operation, bytes: 0, work, hand_over, result: None, reply };
        let _ = self.inbox().try_send(Box::new(job));
    }
}

/// Why a transaction did not happen.
enum TransactionFailure {
    /// It was rolled back: nothing was done.
    RolledBack(rusqlite::Error),
    /// The commit itself failed: it may or may not be on disk.
    OutcomeUnknown(rusqlite::Error),
    /// It was committed to files that somebody deleted, replaced or truncated.
    FilesChanged(TransportError),
}

/// Problems that were logged, and are not logged again until they are over.
#[derive(Debug, Default)]
struct Said {
    files_changed: bool,
    log_blocked: bool,
}

struct WriterLoop {
    inbox: mpsc::Receiver<Box<dyn Job>>,
    /// `None` after a failure that makes the connection unreliable.
    connection: Option<Connection>,
    files: Arc<DatabaseFiles>,
    log: LogWatch,
    /// The length of the log after the last commit or checkpoint.
    log_size: LogSize,
    options: Arc<Options>,
    signals: QueueSignals,
    session: Session,
    jumps: ClockJumpDetector,
    said: Said,
}

impl WriterLoop {
    fn work(mut self) {
        let mut jobs = Vec::with_capacity(GROUP_LIMIT);
        while let Some(first) = self.inbox.blocking_recv() {
            jobs.push(first);
            gather(&mut self.inbox, &mut jobs);
            self.handle(&mut jobs);
        }
    }

    fn handle(&mut self, jobs: &mut Vec<Box<dyn Job>>) {
        if let Err(error) = self.check_files().and_then(|()| self.reopen()) {
            return jobs.drain(..).for_each(|job| job.answer(Some(error.again())));
        }
        if self.session.blocked_log_bytes > 0 {
            self.checkpoint_if_due(); // the reader that blocked the checkpoint may be gone
        }
        match self.transaction(jobs) {
            Err(TransactionFailure::RolledBack(error))
                if jobs.len() > 1 && !is_busy(&error) && !breaks_the_connection(&error) =>
            {
                jobs.drain(..).for_each(|job| self.handle(&mut vec![job]));
            }
            outcome => {
                self.answer(jobs, outcome);
                self.checkpoint_if_due();
            }
        }
    }

    /// Checks that new writes can be read again. Cheap, because the log's content is checked only after the
    /// commit.
    fn check_files(&mut self) -> Result<(), TransportError> {
        self.check_identities()?;
        if self.log.has_shrunk() { self.check_log() } else { Ok(()) }
    }

    fn check_identities(&mut self) -> Result<(), TransportError> {
        match self.files.check() {
            Ok(()) => {
                self.said.files_changed = false;
                Ok(())
            }
            Err(changed) => {
                if !std::mem::replace(&mut self.said.files_changed, true) {
                    let problem = std::error::Error::source(&changed).map(ToString::to_string);
                    tracing::error!(problem, "the files of the database were changed");
                    self.rescue();
                }
                Err(changed)
            }
        }
    }

    /// Checks that everything committed is in the log, or already in the database.
    fn check_log(&mut self) -> Result<(), TransportError> {
        let Some(connection) = &self.connection else { return Ok(()) };
        match self.log.check(connection) {
            Ok(size) => {
                self.log_size = size;
                Ok(())
            }
            Err(LogProblem::Unknown(source)) => Err(from_sqlite(&source, "open")),
            Err(LogProblem::Damaged) => {
                // A damaged log must not be copied into the database, not even when the connection is
                // closed.
                let no_checkpoint = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
                if let Err(error) = connection.set_db_config(no_checkpoint, true) {
                    tracing::error!(%error, "the damaged log may be brought into the database");
                }
                let damaged = self.files.log_is_damaged();
                self.check_identities().and(Err(damaged))
            }
        }
    }

    /// Copies a log that was deleted or replaced into the database, because only this process still
    /// has it.
    fn rescue(&mut self) {
        let Some(connection) = self.connection.as_ref().filter(|_| self.files.only_log_is_gone())
        else {
            return;
        };
        if self.log.check(connection).is_err() {
            return;
        }
        match wal::checkpoint(connection, &self.log) {
            Ok(size) if size.frames == size.checkpointed => {
                tracing::warn!("everything that was accepted is in the database");
            }
            Ok(size) => tracing::error!(
                frames = size.frames - size.checkpointed,
                "somebody reads the database, so not all that was accepted could be brought into it yet"
            ),
            Err(error) => {
                tracing::error!(%error, "what was accepted could not be brought into the database");
            }
        }
    }

    /// Checkpoints a log that is long enough, and detects a reader that prevents it.
    fn checkpoint_if_due(&mut self) {
        let Some(connection) =
            self.connection.as_ref().filter(|_| self.log_size.frames >= CHECKPOINT_FRAMES)
        else {
            return self.note_blocked_log(0);
        };
        match wal::checkpoint(connection, &self.log) {
            Ok(size) => {
                self.log_size = size;
                let is_blocked = size.checkpointed < size.frames;
                self.note_blocked_log(if is_blocked { size.bytes } else { 0 });
            }
            Err(error) if is_busy(&error) => (), // another process is checkpointing
            Err(error) => {
                tracing::error!(%error, "the log could not be checkpointed; the database will be reopened");
                self.connection = None;
            }
        }
    }

    fn note_blocked_log(&mut self, bytes: u64) {
        self.session.blocked_log_bytes = bytes;
        if bytes == 0 {
            self.said.log_blocked = false;
        } else if bytes >= LOG_WARNING_BYTES.min(self.options.max_log_bytes)
            && !self.said.log_blocked
        {
            self.said.log_blocked = true;
            tracing::warn!(path = %self.options.path.display(), bytes, "{BLOCKED_LOG}");
        }
    }

    fn reopen(&mut self) -> Result<(), TransportError> {
        if self.connection.is_none() {
            self.connection = Some(database::open(&self.options)?);
            tracing::info!(path = %self.options.path.display(), "the database was reopened");
        }
        Ok(())
    }

    fn transaction(&mut self, jobs: &mut [Box<dyn Job>]) -> Result<(), TransactionFailure> {
        let Some(connection) = &self.connection else {
            return Err(TransactionFailure::RolledBack(rusqlite::Error::InvalidQuery));
        };
        let session = &mut self.session;
        let (clock, jumps) = (&self.options.clock, &self.jumps);
        let mut steady = Duration::ZERO;
        let mut run = || {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            // Read only now, because another process may have held the lock for longer than a
            // lease.
            session.begin(clock.now());
            steady = clock.steady();
            if let Some(expected) = jumps.jumped(session.now(), steady) {
                tracing::warn!(from = %expected, to = %session.now(), "the clock jumped forward; leases were extended by as much");
                session.move_leases(connection, expected)?;
            }
            jobs.iter_mut().try_for_each(|job| job.run(session, connection))?;
            session.write_counts(connection)
        };
        let outcome = run().map_err(TransactionFailure::RolledBack).and_then(|()| {
            let commit = || connection.prepare_cached("COMMIT")?.execute([]);
            commit().map(|_| ()).map_err(|error| {
                if may_be_committed(&error) {
                    TransactionFailure::OutcomeUnknown(error)
                } else {
                    TransactionFailure::RolledBack(error)
                }
            })
        });
        match outcome {
            Ok(()) => {
                session.committed(&self.signals);
                self.jumps.note(session.now(), steady);
                let readable = self.check_identities().and_then(|()| self.check_log());
                readable.map_err(TransactionFailure::FilesChanged)
            }
            Err(failure) => {
                let (TransactionFailure::RolledBack(error)
                | TransactionFailure::OutcomeUnknown(error)) = &failure
                else {
                    return Err(failure);
                };
                session.rolled_back();
                let stuck =
                    !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err();
                if stuck || breaks_the_connection(error) {
                    tracing::error!(%error, "the database failed and will be reopened");
                    self.connection = None;
                }
                Err(failure)
            }
        }
    }

    fn answer(&self, jobs: &mut Vec<Box<dyn Job>>, outcome: Result<(), TransactionFailure>) {
        for job in jobs.drain(..) {
            let error = match &outcome {
                Ok(()) => None,
                Err(TransactionFailure::RolledBack(source)) => {
                    Some(from_sqlite(source, job.operation()))
                }
                Err(TransactionFailure::OutcomeUnknown(source)) => Some(
                    error(ErrorKind::OutcomeUnknown, job.operation())
                        .with_source(source.to_string()),
                ),
                Err(TransactionFailure::FilesChanged(changed)) => {
                    let problem = std::error::Error::source(changed).map(ToString::to_string);
                    Some(
                        error(ErrorKind::OutcomeUnknown, job.operation())
                            .with_source(problem.unwrap_or_default()),
                    )
                }
            };
            job.answer(error);
        }
    }
}

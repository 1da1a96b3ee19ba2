//! The tasks of a consumer, which may start others.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::task::{JoinError, JoinSet};

/// Tasks that are aborted when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

/// Starts tasks, as long as the [`Tasks`] are not dropped.
#[derive(Debug)]
pub(crate) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl Tasks {
    /// Starts a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawner().spawn(task);
    }

    /// For tasks that start others.
    pub(crate) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }

    /// Waits until all tasks have ended, including those that are started meanwhile.
    pub(crate) async fn ended(&self) {
        while let Some(ended) = poll_fn(|context| lock(&self.0).poll_join_next(context)).await {
            report(ended);
        }
    }

    /// Forgets tasks that have ended.
    pub(crate) fn forget_ended(&self) {
        let mut tasks = lock(&self.0);
        while let Some(ended) = tasks.try_join_next() {
            report(ended);
        }
    }

    /// Aborts all tasks, and waits until they have ended.
    pub(crate) async fn shutdown(self) {
        let mut tasks = std::mem::take(&mut *lock(&self.0));
        drop(self); // an aborted task starts no other
        tasks.shutdown().await;
    }
}

impl Spawner {
    /// Starts a task, unless all are being aborted.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.0.upgrade() {
            // Boxed, because a future is moved several times when a task is spawned and ends.
            lock(&tasks).spawn(Box::pin(task));
        }
    }
}

/// Reports a panic, without its message, which may contain anything.
pub(crate) fn report_panic() {
    tracing::error!("a worker task panicked; its message will be delivered again");
}

fn report(ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        report_panic();
    }
}

fn lock(tasks: &Mutex<JoinSet<()>>) -> MutexGuard<'_, JoinSet<()>> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}

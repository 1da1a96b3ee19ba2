//! Work that must end even if nobody waits for it any more.
//!
//! A request that is cut off may have changed a pop receipt that nobody learns. Running each request in a task of its own
//! would do, but costs two handovers between threads. So the caller polls it, and only if it is dropped in between, the
//! rest becomes a task.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that goes on in a task of its own if it was begun and is dropped before its end.
pub(crate) struct Uninterrupted<T: Send + 'static> {
    /// `None` once it has ended.
    work: Option<Work<T>>,
    is_begun: bool,
    tasks: TaskTracker,
}

impl<T: Send + 'static> Uninterrupted<T> {
    /// `tasks` counts the task, if it becomes one.
    pub(crate) fn new(tasks: &TaskTracker, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), is_begun: false, tasks: tasks.clone() }
    }
}

impl<T: Send + 'static> Future for Uninterrupted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.is_begun = true;
        let work = self.work.as_mut().expect("not polled after its end");
        let output = ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Uninterrupted<T> {
    fn drop(&mut self) {
        let is_open = self.is_begun && !std::thread::panicking();
        if let (true, Some(work), Ok(runtime)) = (is_open, self.work.take(), Handle::try_current())
        {
            runtime.spawn(self.tasks.track_future(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_that_was_begun_ends_although_it_is_dropped() {
        let (tasks, go, ended) =
            (TaskTracker::new(), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (its_go, its_end) = (go.clone(), ended.clone());
        let mut work = Uninterrupted::new(&tasks, async move {
            its_go.notified().await;
            its_end.notify_one();
        });
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        assert_eq!(tasks.len(), 1, "it is counted");
        go.notify_one();
        ended.notified().await;
    }

    #[tokio::test]
    async fn work_that_was_not_begun_never_is() {
        let tasks = TaskTracker::new();
        drop(Uninterrupted::new(&tasks, async { unreachable!("nobody polled it") }));
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn work_that_ended_becomes_no_task() {
        let tasks = TaskTracker::new();
        assert_eq!(Uninterrupted::new(&tasks, async { 7 }).await, 7);
        assert!(tasks.is_empty());
    }
}

//! Handlers that take several messages in one call.
//!
//! Each message keeps a task, a lease, a timeout and an outcome of its own; only the call is shared. A message joins
//! the open batch, or begins a new one. The batch starts when it is full or its first message has waited long enough.
//! It is one future that all of its messages poll: a message that leaves (lease lost, timed out) does not stop the
//! others, and when the last has left, the handler is dropped. A message that leaves before the batch starts is
//! removed from it.

use std::{
    num::NonZeroU32,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bezoar_core::{Code, Failure, Invalid};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use tokio::{sync::oneshot, time::sleep};

use crate::{FromRef, State, process::panicked};

/// Messages of one call, in the order in which they joined. The handler's parameter says what is extracted from each:
/// `Batch<Json<LabResult>>`, `Batch<(MessageId, Json<LabResult>)>`.
#[derive(Debug, Clone, Default)]
pub struct Batch<I>(pub Vec<I>);

/// How messages are gathered into a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    max_messages: NonZeroU32,
    max_wait: Duration,
}

impl BatchOptions {
    /// Up to `max_messages` (1 to 10,000) in one call, which starts when the first has waited for `max_wait` (at most a
    /// minute).
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a value out of these ranges.
    pub fn new(max_messages: u32, max_wait: Duration) -> Result<Self, Invalid> {
        let number = NonZeroU32::new(max_messages).filter(|number| number.get() <= 10_000);
        let max_messages = number.ok_or_else(|| {
            Invalid::new("max_messages", format!("is {max_messages}, 1 to 10000 are accepted"))
        })?;
        if max_wait > Duration::from_secs(60) {
            return Err(Invalid::new(
                "max_wait",
                format!("is {max_wait:?}, at most 60s is accepted"),
            ));
        }
        Ok(Self { max_messages, max_wait })
    }
}

impl Default for BatchOptions {
    /// Up to 100 messages, gathered for 10 ms.
    fn default() -> Self {
        let max_messages = NonZeroU32::new(100).expect("100 is not 0");
        Self { max_messages, max_wait: Duration::from_millis(10) }
    }
}

/// An async function that takes a [`Batch`] and, optionally, the router's [`State`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of batches",
    label = "not an `async fn(Batch<…>)` or `async fn(Batch<…>, State<…>)`",
    note = "other parts of a message are extracted for each one: `Batch<(MessageId, Json<T>)>`"
)]
pub trait BatchHandler<I, P, S>: Clone + Send + Sync + 'static {
    /// The future that a call returns.
    type Future: Future<Output = Self::Output>;
    /// The type that the handler returns.
    type Output;

    /// Calls the handler.
    fn call(self, batch: Batch<I>, state: &S) -> Self::Future;
}

impl<I, S, F, Fut> BatchHandler<I, (), S> for F
where
    F: FnOnce(Batch<I>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future,
{
    type Future = Fut;
    type Output = Fut::Output;

    fn call(self, batch: Batch<I>, _: &S) -> Fut {
        self(batch)
    }
}

impl<I, S, T, F, Fut> BatchHandler<I, (T,), S> for F
where
    F: FnOnce(Batch<I>, State<T>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future,
    T: FromRef<S>,
{
    type Future = Fut;
    type Output = Fut::Output;

    fn call(self, batch: Batch<I>, state: &S) -> Fut {
        self(batch, State(T::from_ref(state)))
    }
}

/// What a handler of batches may return: a result for each message in their order, or one for all of them.
#[diagnostic::on_unimplemented(
    message = "a handler of batches cannot return `{Self}`",
    label = "returns `{Self}`",
    note = "return `Vec<Result<(), E>>` with a result for each message, `Result<Vec<Result<(), E>>, E>`, or \
            `Result<(), E>` for all of them, where `E` is `Failure` or any error that is `Send + Sync + 'static`"
)]
pub trait BatchResult {
    /// A result for each of `count` messages, in their order.
    fn into_results(self, count: usize) -> Vec<Result<(), Failure>>;
}

impl BatchResult for () {
    fn into_results(self, count: usize) -> Vec<Result<(), Failure>> {
        vec![Ok(()); count]
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<Failure>> BatchResult for Vec<Result<(), E>> {
    /// A message without a result counts as failed, because it is unknown whether it was handled.
    fn into_results(self, count: usize) -> Vec<Result<(), Failure>> {
        let results = self.into_iter().map(|result| result.map_err(Into::into));
        results.chain(std::iter::repeat_with(no_result)).take(count).collect()
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<Failure>> BatchResult for Result<(), E> {
    fn into_results(self, count: usize) -> Vec<Result<(), Failure>> {
        vec![self.map_err(Into::into); count]
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<Failure>, A: Into<Failure>> BatchResult for Result<Vec<Result<(), E>>, A> {
    fn into_results(self, count: usize) -> Vec<Result<(), Failure>> {
        match self {
            Ok(results) => results.into_results(count),
            Err(all) => vec![Err(all.into()); count],
        }
    }
}

fn no_result() -> Result<(), Failure> {
    let failure = Failure::from("the handler returned no result for this message");
    Err(failure.with_code(Code::from_static("batch-result-missing")))
}

type Results = Arc<Vec<Option<Result<(), Failure>>>>;
type Running = Shared<BoxFuture<'static, Results>>;
type Call<I> = Box<dyn Fn(Vec<I>) -> BoxFuture<'static, Vec<Result<(), Failure>>> + Send + Sync>;

/// Gathers messages, and calls the handler with all of them.
pub(crate) struct Collector<I> {
    options: BatchOptions,
    call: Call<I>,
    gathering: Mutex<Option<Gathering<I>>>,
}

/// A batch that has not started yet.
struct Gathering<I> {
    /// The messages in the order of joining; `None` for one that left.
    seats: Vec<Option<I>>,
    full: oneshot::Sender<Vec<Option<I>>>,
    running: WeakShared<BoxFuture<'static, Results>>,
}

/// A message's place in a batch. Dropping it before the batch starts removes the message.
struct Seat<I> {
    collector: Arc<Collector<I>>,
    running: Running,
    at: usize,
}

impl<I: Send + 'static> Collector<I> {
    pub(crate) fn new(options: BatchOptions, call: Call<I>) -> Arc<Self> {
        Arc::new(Self { options, call, gathering: Mutex::default() })
    }

    /// Adds a message to a batch, and waits for its own result.
    pub(crate) async fn handle(self: Arc<Self>, item: I) -> Result<(), Failure> {
        let seat = self.join(item);
        let results = seat.running.clone().await;
        results.get(seat.at).cloned().flatten().unwrap_or_else(no_result)
    }

    fn join(self: &Arc<Self>, item: I) -> Seat<I> {
        let mut gathering = self.gathering();
        let running = gathering.as_ref().and_then(|it| it.running.upgrade());
        let running = running.unwrap_or_else(|| {
            let (full, filled) = oneshot::channel();
            let running = self.clone().run(filled).boxed().shared();
            let weak = running.downgrade().expect("the batch has not been polled");
            *gathering = Some(Gathering { seats: Vec::new(), full, running: weak });
            running
        });
        let batch = gathering.as_mut().expect("there is an open batch");
        let at = batch.seats.len();
        batch.seats.push(Some(item));
        if batch.seats.len() == self.options.max_messages.get() as usize
            && let Some(batch) = gathering.take()
        {
            let _ = batch.full.send(batch.seats); // always received, because every message that joined polls the batch
        }
        drop(gathering);
        Seat { collector: self.clone(), running, at }
    }

    /// Runs one batch: gathers messages, calls the handler, and returns a result for every seat.
    async fn run(self: Arc<Self>, mut filled: oneshot::Receiver<Vec<Option<I>>>) -> Results {
        let seats = tokio::select! {
            biased;
            filled = &mut filled => filled.unwrap_or_default(),
            () = sleep(self.options.max_wait) => self.close(filled),
        };
        let taken: Vec<bool> = seats.iter().map(Option::is_some).collect();
        let items: Vec<I> = seats.into_iter().flatten().collect();
        let count = items.len();
        let called = AssertUnwindSafe(async { (self.call)(items).await }).catch_unwind().await;
        let results = called.unwrap_or_else(|panic| vec![Err(panicked(&*panic)); count]);
        let mut results = results.into_iter();
        Arc::new(taken.into_iter().map(|taken| taken.then(|| results.next()).flatten()).collect())
    }

    /// Closes the batch to further messages. It may have become full at the same moment.
    fn close(&self, mut filled: oneshot::Receiver<Vec<Option<I>>>) -> Vec<Option<I>> {
        let mut gathering = self.gathering();
        if let Ok(seats) = filled.try_recv() {
            return seats;
        }
        gathering.take().map(|batch| batch.seats).unwrap_or_default()
    }
}

impl<I> Collector<I> {
    fn gathering(&self) -> MutexGuard<'_, Option<Gathering<I>>> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Drop for Seat<I> {
    fn drop(&mut self) {
        let mut gathering = self.collector.gathering();
        let Some(batch) = gathering.as_mut() else { return };
        if batch.running.upgrade().is_some_and(|running| running.ptr_eq(&self.running)) {
            batch.seats[self.at] = None;
        }
    }
}

impl<I> std::fmt::Debug for Collector<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("options", &self.options).finish_non_exhaustive()
    }
}

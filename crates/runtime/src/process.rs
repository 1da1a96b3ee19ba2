//! Handles one delivery: runs the handler and decides what happens to the message.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, PoisonError},
    task::Poll,
    time::Duration,
};

use bezoar_core::{
    Code, Decision, FailedTry, Failure, FailureError, FailureKind, MAX_RETRY_AFTER, Message,
    Reason, RetryPolicy, RetryStrategy, Settlement, Verdict,
};
use futures_util::{FutureExt, poll};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use crate::{
    Context, Event, HandlerError, HandlerService, Postpone, Shutdown, Snooze, UncountedError,
    Worker, lease_keeper::Held, settler::Settled,
};

/// How long a message is released if its service was not ready in time.
const NOT_READY: Duration = Duration::from_secs(1);

/// How to settle a delivery, and the decision behind it if a retry strategy was called.
type Outcome = (Settlement, Option<Box<Decision>>);

/// Everything that is needed to handle a delivery.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) worker: Arc<Worker>,
    pub(crate) shutdown: Shutdown,
    /// When the worker started to fetch messages.
    pub(crate) started: Timestamp,
    /// The longest delay that the transport supports.
    pub(crate) longest_delay: Duration,
}

impl Process {
    /// Handles a delivery and returns how to settle it; `None` if its lease was lost.
    pub(crate) async fn run(&self, held: Held) -> Option<Settled> {
        if held.is_lost() {
            self.tell(&held.message, &Event::LeaseLost);
            return None;
        }
        let (settlement, decision) = match self.given_up(&held.message) {
            Some(settlement) => (settlement, None),
            None => self.handle(&held).await?,
        };
        // Only a requested wait can be longer: the `Retry-After` of a failure, or that of a layer, which can
        // postpone again.
        let settlement = settlement.within(self.longest_delay);
        Some(Settled::new(held, settlement).decided(decision))
    }

    /// Dead-letters a message without handling it if it keeps crashing its process or has expired.
    pub(crate) fn given_up(&self, message: &Message) -> Option<Settlement> {
        let deliveries = message.ledger.without_outcome();
        let reason = match message.expires_at {
            _ if deliveries > self.worker.max_deliveries => Reason::max_deliveries(deliveries - 1),
            Some(at) if at <= self.worker.clock.now() => Reason::expired(at),
            _ => return None,
        };
        Some(Settlement::DeadLetter { reason, tries: Vec::new() })
    }

    async fn handle(&self, held: &Held) -> Option<Outcome> {
        let message = &held.message;
        let mut context = Context::new(message.clone(), self.worker.queue.clone());
        context.redelivered = held.redelivered;
        let span = tracing::info_span!(
            "message",
            queue = %context.queue,
            message_id = %message.id,
            correlation_id = self.worker.correlation.of(message),
            attempt = context.attempt,
        );
        let attempt = async {
            self.tell(message, &Event::Started);
            self.attempt(context).await
        };
        let mut attempt = std::pin::pin!(attempt.instrument(span));
        // Many handlers finish at their first poll, so that their lease need not be watched.
        if let Poll::Ready(outcome) = poll!(attempt.as_mut()) {
            return Some(outcome);
        }
        Box::pin(self.watch(attempt, held)).await
    }

    /// Waits for the attempt; `None` if the lease was lost meanwhile, which stops the attempt.
    async fn watch(
        &self,
        attempt: Pin<&mut impl Future<Output = Outcome>>,
        held: &Held,
    ) -> Option<Outcome> {
        tokio::select! {
            biased;
            outcome = attempt => Some(outcome),
            () = self.shutdown.aborting() => {
                Some((Settlement::Release { after: Duration::ZERO }, None))
            }
            () = held.lost() => {
                self.tell(&held.message, &Event::LeaseLost);
                None
            }
        }
    }

    /// Runs the tries of one attempt, and decides how to settle.
    async fn attempt(&self, context: Context) -> Outcome {
        let immediate_retries = self.worker.immediate_retries_of(&context.message) as usize;
        let mut tries = Vec::new();
        let mut last_failure = None;
        loop {
            let (at, duration, result) = self.try_once(context.clone()).await;
            let failure = match (result, last_failure.take()) {
                (Ok(()), _) => return (Settlement::Complete, None),
                (Err(HandlerError::Failed(FailureError(failure))), _) => failure,
                (Err(HandlerError::Postponed(Postpone(after))), None) => {
                    return (Settlement::Release { after }, None);
                }
                (Err(HandlerError::Uncounted(uncounted)), None) => {
                    return (self.decide_uncounted(&context, &uncounted, at, duration), None);
                }
                (Err(HandlerError::Snoozed(snooze)), None) => match self.snooze(&context, snooze) {
                    Ok(settlement) => return (settlement, None),
                    Err(too_long) => too_long,
                },
                // The earlier try has failed, even if the service is not ready for another.
                (Err(_), Some(failure)) => return self.decide(&context, &failure, tries),
            };
            let failed = FailedTry {
                generation: context.message.ledger.replayed,
                attempt: context.attempt,
                try_number: tries.len() as u32 + 1,
                ..FailedTry::new(at, duration, &failure)
            };
            self.tell(&context.message, &Event::TryFailed(&failed));
            tries.push(failed);
            let last = tries.len() > immediate_retries;
            if last || !failure.kind.is_retryable() || failure.retry_after.is_some() {
                return self.decide(&context, &failure, tries);
            }
            last_failure = Some(failure);
        }
    }

    /// Runs the handler; returns when it started, how long it took and how it ended. Time spent waiting for
    /// a layer to be ready, such as a rate limit, does not count as the handler's.
    async fn try_once(&self, context: Context) -> (Timestamp, Duration, Result<(), HandlerError>) {
        let mut service = self.worker.service.clone();
        let ready = self.in_time(async { service.ready().await.map(|_| ()) }).await;
        let ready = ready.unwrap_or(Err(HandlerError::Postponed(Postpone(NOT_READY))));
        let (at, started) = (self.worker.clock.now(), Instant::now());
        let result = match ready {
            // It expired while it waited for a layer. It is released, and dead-lettered when it is
            // delivered again.
            Ok(()) if context.message.is_expired(at) => {
                Err(HandlerError::Postponed(Postpone(Duration::ZERO)))
            }
            Ok(()) => self.call(service, context).await,
            Err(refusal) => Err(refusal),
        };
        (at, started.elapsed(), result)
    }

    async fn call(
        &self,
        mut service: HandlerService,
        context: Context,
    ) -> Result<(), HandlerError> {
        let called = self.in_time(async move { service.call(context).await }).await;
        called.unwrap_or_else(|| {
            let failure = Failure::transient("the handler took too long");
            Err(HandlerError::Failed(FailureError(failure.with_code(Code::TIMEOUT))))
        })
    }

    /// The handler's result; `None` if it timed out. A panic is a failure like any other.
    async fn in_time(
        &self,
        work: impl Future<Output = Result<(), HandlerError>>,
    ) -> Option<Result<(), HandlerError>> {
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        // Many handlers finish at their first poll, so that they need no timer.
        let ended = match poll!(work.as_mut()) {
            Poll::Ready(ended) => ended,
            Poll::Pending => timeout(self.worker.timeout, work).await.ok()?,
        };
        Some(
            ended
                .unwrap_or_else(|panic| Err(HandlerError::Failed(FailureError(panicked(&*panic))))),
        )
    }

    fn decide(&self, context: &Context, failure: &Failure, tries: Vec<FailedTry>) -> Outcome {
        let decision = self.ask_policy(&context.message, failure);
        (decision.settlement(tries), Some(Box::new(decision)))
    }

    /// What the policy decides. A policy that panics must not lose the message. A policy must not ask for a longer
    /// delay than it declared, because only the declared one was checked against the transport.
    fn ask_policy(&self, message: &Message, failure: &Failure) -> Decision {
        let mut random = self.worker.random.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = self.worker.policy_of(message);
        let mut ask = |policy: &dyn RetryStrategy| {
            let mut decision = policy.decide(&message.ledger, failure, &mut *random);
            if let Verdict::Retry { after } = &mut decision.verdict {
                let longest = policy.largest_delay().max(MAX_RETRY_AFTER).min(self.longest_delay);
                *after = (*after).min(longest);
            }
            decision
        };
        catch_unwind(AssertUnwindSafe(|| ask(policy))).unwrap_or_else(|_| {
            let queue = &self.worker.queue;
            tracing::error!(%queue, message_id = %message.id, "a retry strategy panicked; the default policy decides");
            ask(&RetryPolicy::default())
        })
    }

    fn decide_uncounted(
        &self,
        context: &Context,
        UncountedError { failure, suspected }: &UncountedError,
        at: Timestamp,
        duration: Duration,
    ) -> Settlement {
        let mut random = self.worker.random.lock().unwrap_or_else(PoisonError::into_inner);
        let (ledger, time) = (&context.message.ledger, self.now_and_active_since());
        let policy = &self.worker.uncounted;
        let decision = policy.decide(ledger, failure, *suspected, time, &mut *random);
        decision.settlement(FailedTry::new(at, duration, failure))
    }

    /// Releases the message for as long as its handler asked. It is a failure if the message has been snoozed for too
    /// long, or if the transport would have to deliver it early.
    fn snooze(&self, context: &Context, Snooze(after): Snooze) -> Result<Settlement, Failure> {
        let (ledger, time) = (&context.message.ledger, self.now_and_active_since());
        let refused = |why| Failure::transient(why).with_code(Code::SNOOZE_LIMIT);
        if after > self.longest_delay {
            return Err(refused("snoozed for longer than the transport can wait"));
        }
        let snoozed = self.worker.uncounted.snooze(ledger, after, time);
        let failure = snoozed.ok_or_else(|| refused("snoozed for too long"))?;
        Ok(Settlement::Uncounted { after, failure })
    }

    /// The current time, and the time since which messages have been fetched without a pause.
    fn now_and_active_since(&self) -> (Timestamp, Timestamp) {
        let resumed = self.worker.gate.resumed_at();
        let active_since = resumed.map_or(self.started, |it| it.max(self.started));
        (self.worker.clock.now(), active_since)
    }

    fn tell(&self, message: &Message, event: &Event<'_>) {
        self.worker.tell(message, event);
    }
}

/// A panic's message may contain anything, so it is treated as a detail.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::new(FailureKind::Unknown, text.unwrap_or_else(|| "the handler panicked".to_owned()))
        .with_code(Code::PANIC)
}

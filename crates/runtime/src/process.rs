//! One delivery: run the handler, keep the lease, decide what becomes of the message.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, PoisonError},
    task::Poll,
    time::Duration,
};

use bezoar_core::{
    Attempt, Code, Delivery, ErrorKind, Failure, FailureKind, Leases, Message, Reason, Settlement,
    Subscription, UncountedDecision, Verdict,
};
use futures_util::{FutureExt, poll};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use crate::{
    Context, Event, Failed, HandlerService, Postponed, Refusal, Shutdown, Uncounted, Worker,
    company::Company, settler::Settled,
};

/// What one delivery is handled with.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) worker: Arc<Worker>,
    pub(crate) subscription: Arc<Box<dyn Subscription>>,
    pub(crate) leases: Leases,
    pub(crate) shutdown: Shutdown,
    /// When the worker began to take messages.
    pub(crate) started: Timestamp,
}

impl Process {
    /// Handles a delivery and says what is to become of it; `None` if it is no longer ours.
    pub(crate) async fn run(self, mut delivery: Delivery, mut company: Company) -> Option<Settled> {
        let settlement = match self.given_up(&delivery.message, &company) {
            Some(settlement) => settlement,
            None => self.handle(&mut delivery, &mut company).await?,
        };
        Some(Settled { delivery, settlement, company })
    }

    /// A message that keeps taking its process along is set aside without being handled once more; one that
    /// cannot be in hand at present is handed back.
    fn given_up(&self, message: &Message, company: &Company) -> Option<Settlement> {
        if let Company::Leaving { .. } = company {
            return Some(Settlement::Release { after: Duration::ZERO });
        }
        let deliveries = message.ledger.without_outcome();
        (deliveries > self.worker.max_deliveries).then(|| Settlement::DeadLetter {
            reason: Reason::max_deliveries(deliveries - 1),
            attempts: Vec::new(),
        })
    }

    async fn handle(&self, delivery: &mut Delivery, company: &mut Company) -> Option<Settlement> {
        let message = &delivery.message.clone();
        let context = Context {
            message: message.clone(),
            queue: self.worker.queue.clone(),
            attempt: message.ledger.failed.saturating_add(1),
            redelivered: delivery.redelivered,
        };
        let span = tracing::info_span!(
            "message",
            queue = %context.queue,
            message_id = %message.id,
            correlation_id = self.worker.correlation.of(message),
            attempt = context.attempt,
        );
        let attempt = async {
            self.worker.isolation.join(company).await;
            self.tell(message, &Event::Started);
            self.attempt(context).await
        };
        let mut attempt = std::pin::pin!(attempt.instrument(span));
        let started = Instant::now();
        // Many are done at once, and need no timer.
        if let Poll::Ready(settlement) = poll!(attempt.as_mut()) {
            return Some(settlement);
        }
        Box::pin(self.hold(attempt, started, delivery)).await
    }

    /// Waits for the attempt and renews the lease meanwhile; `None` if the lease was lost.
    async fn hold(
        &self,
        mut attempt: Pin<&mut impl Future<Output = Settlement>>,
        started: Instant,
        delivery: &mut Delivery,
    ) -> Option<Settlement> {
        let third = (self.worker.subscribe.lease / 3).max(Duration::from_millis(1));
        let mut renewal = interval_at(started + third, third);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                settlement = &mut attempt => return Some(settlement),
                () = self.shutdown.aborting() => return Some(Settlement::Release { after: Duration::ZERO }),
                _ = renewal.tick(), if self.leases == Leases::Expire => (),
            }
            let (renewed, settlement) = self.renew(attempt.as_mut(), delivery).await;
            if !renewed {
                self.tell(&delivery.message, &Event::LeaseLost);
                return None;
            }
            if settlement.is_some() {
                return settlement;
            }
        }
    }

    /// Renews the lease while the attempt goes on. If the attempt ends first its settlement waits, so
    /// that renewing and settling do not race.
    async fn renew(
        &self,
        mut attempt: Pin<&mut impl Future<Output = Settlement>>,
        delivery: &mut Delivery,
    ) -> (bool, Option<Settlement>) {
        let mut settlement = None;
        let lease = self.worker.subscribe.lease;
        let mut renewing = std::pin::pin!(timeout(
            lease,
            self.subscription.extend(std::slice::from_mut(delivery), lease)
        ));
        let renewed = loop {
            tokio::select! {
                biased;
                renewed = &mut renewing => break renewed,
                settled = &mut attempt, if settlement.is_none() => settlement = Some(settled),
            }
        };
        // Trouble of another kind may pass before the lease runs out: the next tick tries again.
        let renewed = renewed.ok().and_then(|mut results| results.pop());
        let lost = matches!(renewed, Some(Err(error)) if error.kind == ErrorKind::LeaseLost);
        (!lost, settlement)
    }

    /// The tries of one attempt, and what follows from them.
    async fn attempt(&self, context: Context) -> Settlement {
        let mut tries = Vec::new();
        let mut last_failure = None;
        loop {
            let (at, duration, result) = self.try_once(context.clone()).await;
            let failure = match (result, last_failure.take()) {
                (Ok(()), _) => return Settlement::Complete,
                (Err(Refusal::Failed(Failed(failure))), _) => failure,
                (Err(Refusal::Postponed(Postponed(after))), None) => {
                    return Settlement::Release { after };
                }
                (Err(Refusal::Uncounted(uncounted)), None) => {
                    return self.decide_uncounted(&context, &uncounted, at, duration);
                }
                // What failed has failed, even if there is no trying again at present.
                (Err(Refusal::Postponed(_) | Refusal::Uncounted(_)), Some(failure)) => {
                    return self.decide(&context, &failure, tries);
                }
            };
            let attempt = Attempt::failed(at, duration, &failure);
            self.tell(&context.message, &Event::TryFailed(&attempt));
            tries.push(attempt);
            let last = tries.len() > self.worker.immediate_retries as usize;
            if last || !failure.kind.is_retryable() || failure.retry_after.is_some() {
                return self.decide(&context, &failure, tries);
            }
            last_failure = Some(failure);
        }
    }

    /// Runs the handler: when it started, how long it took, how it ended. Time spent waiting for a layer to
    /// be ready, such as a limit, is not the handler's.
    async fn try_once(&self, context: Context) -> (Timestamp, Duration, Result<(), Refusal>) {
        let mut service = self.worker.service.clone();
        let ready = service.ready().await.map(|_| ());
        let (at, started) = (self.worker.clock.now(), Instant::now());
        let result = match ready {
            Ok(()) => self.call(service, context).await,
            Err(refusal) => Err(refusal),
        };
        (at, started.elapsed(), result)
    }

    async fn call(&self, mut service: HandlerService, context: Context) -> Result<(), Refusal> {
        let failed = |failure| Err(Refusal::Failed(Failed(failure)));
        let called = AssertUnwindSafe(async move { service.call(context).await });
        match timeout(self.worker.timeout, called.catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => failed(panicked(&*panic)),
            Err(_) => {
                failed(Failure::transient("the handler took too long").with_code(Code::TIMEOUT))
            }
        }
    }

    fn decide(&self, context: &Context, failure: &Failure, attempts: Vec<Attempt>) -> Settlement {
        let mut random = self.worker.random.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = self.worker.policy.decide(&context.message.ledger, failure, &mut *random);
        match decision.verdict {
            Verdict::Retry { after } => Settlement::Retry { after, attempts },
            Verdict::DeadLetter => Settlement::DeadLetter { reason: decision.reason, attempts },
        }
    }

    fn decide_uncounted(
        &self,
        context: &Context,
        Uncounted { failure, suspected }: &Uncounted,
        at: Timestamp,
        duration: Duration,
    ) -> Settlement {
        let mut random = self.worker.random.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = &context.message.ledger;
        let active_since =
            self.worker.gate.resumed_at().map_or(self.started, |it| it.max(self.started));
        let time = (self.worker.clock.now(), active_since);
        match self.worker.uncounted.decide(ledger, failure, *suspected, time, &mut *random) {
            UncountedDecision::Wait { after, failure } => Settlement::Uncounted { after, failure },
            UncountedDecision::DeadLetter(reason) => {
                // The last one is in the history, so that a dead letter says how it failed.
                let attempts = vec![Attempt::failed(at, duration, failure)];
                Settlement::DeadLetter { reason, attempts }
            }
        }
    }

    fn tell(&self, message: &Message, event: &Event<'_>) {
        self.worker.tell(message, event);
    }
}

/// What a panic said may hold anything, so it is a detail.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::new(FailureKind::Unknown, text.unwrap_or_else(|| "the handler panicked".to_owned()))
        .with_code(Code::PANIC)
}

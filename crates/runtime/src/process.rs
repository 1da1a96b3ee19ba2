//! One delivery: run the handler, keep the lease, decide what becomes of the message.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use bezoar_core::{
    Attempt, Code, Delivery, ErrorKind, Failure, FailureKind, Leases, Message, Reason, Settlement,
    Subscription, Verdict,
};
use futures_util::FutureExt;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use crate::{Context, Event, Failed, Postponed, Refusal, Shutdown, Worker, settler::Settled};

/// What one delivery is handled with.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) worker: Arc<Worker>,
    pub(crate) subscription: Arc<Box<dyn Subscription>>,
    pub(crate) leases: Leases,
    pub(crate) shutdown: Shutdown,
}

impl Process {
    /// Handles a delivery and says what is to become of it; `None` if it is no longer ours.
    pub(crate) async fn run(self, mut delivery: Delivery) -> Option<Settled> {
        let message = Arc::new(delivery.message.clone());
        let settlement = match self.given_up(&message) {
            Some(settlement) => settlement,
            None => self.handle(&message, &mut delivery).await?,
        };
        Some(Settled { delivery, settlement, message })
    }

    /// A message that keeps taking its process along is set aside without being handled once more.
    fn given_up(&self, message: &Message) -> Option<Settlement> {
        let deliveries = message.ledger.without_outcome();
        (deliveries > self.worker.max_deliveries).then(|| Settlement::DeadLetter {
            reason: Reason::max_deliveries(deliveries - 1),
            attempts: Vec::new(),
        })
    }

    async fn handle(&self, message: &Arc<Message>, delivery: &mut Delivery) -> Option<Settlement> {
        self.tell(message, &Event::Started);
        let context = Context {
            message: message.clone(),
            queue: self.worker.queue.clone(),
            attempt: message.ledger.failed + 1,
            redelivered: delivery.redelivered,
        };
        let span = tracing::info_span!(
            "message",
            queue = %context.queue,
            message_id = %message.id,
            correlation_id = message.correlation_id.as_ref().map(|id| id.as_str()),
            attempt = context.attempt,
        );
        let attempt = std::pin::pin!(self.attempt(context).instrument(span));
        self.hold(attempt, delivery).await
    }

    /// Waits for the attempt and renews the lease meanwhile; `None` if the lease was lost.
    async fn hold(
        &self,
        mut attempt: Pin<&mut impl Future<Output = Settlement>>,
        delivery: &mut Delivery,
    ) -> Option<Settlement> {
        let third = (self.worker.subscribe.lease / 3).max(Duration::from_millis(1));
        let mut renewal = interval_at(Instant::now() + third, third);
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
        let mut renewing = self.subscription.extend(delivery, self.worker.subscribe.lease);
        let renewed = loop {
            tokio::select! {
                biased;
                renewed = &mut renewing => break renewed,
                settled = &mut attempt, if settlement.is_none() => settlement = Some(settled),
            }
        };
        // Trouble of another kind may pass before the lease runs out: the next tick tries again.
        let lost = renewed.is_err_and(|error| error.kind == ErrorKind::LeaseLost);
        (!lost, settlement)
    }

    /// The tries of one attempt, and what follows from them.
    async fn attempt(&self, context: Context) -> Settlement {
        let mut tries = Vec::new();
        loop {
            let (at, started) = (self.worker.clock.now(), Instant::now());
            let failure = match self.try_once(context.clone()).await {
                Ok(()) => return Settlement::Complete,
                Err(Refusal::Postponed(Postponed(after))) => return Settlement::Release { after },
                Err(Refusal::Failed(Failed(failure))) => failure,
            };
            let attempt = Attempt::failed(at, started.elapsed(), &failure);
            self.tell(&context.message, &Event::TryFailed(&attempt));
            tries.push(attempt);
            let last = tries.len() > self.worker.immediate_retries as usize;
            if last || !failure.kind.is_retryable() || failure.retry_after.is_some() {
                return self.decide(&context, &failure, tries);
            }
        }
    }

    async fn try_once(&self, context: Context) -> Result<(), Refusal> {
        let mut service = self.worker.service.clone();
        let run = async move { service.ready().await?.call(context).await };
        let failed = |failure| Err(Refusal::Failed(Failed(failure)));
        match timeout(self.worker.timeout, AssertUnwindSafe(run).catch_unwind()).await {
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

//! One message: what happens before its delivery, the delivery, and what happens after it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError},
    time::Duration,
};

use bezoar_core::{
    Code, Decision, FailedTry, Failure, FailureError, Message, Reason, RetryStrategy,
    TransportError, Verdict,
    poison_retry::{
        BeforeDelivery, LONGEST_DELAY, PoisonContent, PoisonEnd, PoisonMessage, PoisonRetryOptions,
        before_delivery,
    },
};
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use tower::{Service, ServiceExt};
use tracing::Instrument;

use super::{PoisonRetry, report::Report, settle::Change, summary::Fate};
use crate::{Context, HandlerError, UncountedError, process::panicked};

/// A delivery was put off by a layer or snoozed by its handler, which is a failure here.
const POSTPONED: Code = Code::from_static("postponed");

/// A message that was taken from the queue, until it is settled.
pub(super) struct Attempted {
    pub(super) processor: PoisonRetry,
    pub(super) message: Box<dyn PoisonMessage>,
    /// When others can get the message.
    pub(super) until: Instant,
}

/// What happens to a message before its delivery.
enum Start {
    Deliver(Arc<Message>),
    DeadLetter(Reason),
    Leave(TransportError),
}

impl Attempted {
    /// Delivers and settles the message. A panic leaves the message as it is.
    pub(super) async fn run(mut self) -> Fate {
        let report = Report::new(&self.processor, &*self.message);
        let span = report.span();
        let fate = AssertUnwindSafe(self.settle(&report)).catch_unwind().instrument(span).await;
        fate.unwrap_or_else(|_| report.panicked())
    }

    async fn settle(&mut self, report: &Report) -> Fate {
        match self.start() {
            Start::Leave(error) => report.left("message cannot be read now", &error),
            Start::DeadLetter(reason) => self.dead_letter(report, &reason, None).await,
            Start::Deliver(content) => match self.deliver(&content).await {
                Ok(()) => self.delivered(report).await,
                Err((failure, failed)) => self.failed(report, &content, &failure, &failed).await,
            },
        }
    }

    fn start(&self) -> Start {
        let most = self.processor.options.max_attempts;
        match self.message.content() {
            PoisonContent::Unusable(reason) => Start::DeadLetter(reason),
            PoisonContent::Unavailable(error) => Start::Leave(error),
            PoisonContent::Message(content) => {
                match before_delivery(self.message.retry_count(), most) {
                    BeforeDelivery::Deliver => Start::Deliver(content),
                    BeforeDelivery::DeadLetter => Start::DeadLetter(Reason::exhausted(most)),
                }
            }
        }
    }

    async fn deliver(&self, content: &Arc<Message>) -> Result<(), (Failure, FailedTry)> {
        let (at, started) = (self.processor.clock.now(), Instant::now());
        self.call(content).await.map_err(|failure| {
            let failed = FailedTry::new(at, started.elapsed(), &failure);
            (failure, failed)
        })
    }

    /// One call of the service. Whatever goes wrong is a failure.
    async fn call(&self, content: &Arc<Message>) -> Result<(), Failure> {
        let mut context = Context::new(content.clone(), self.processor.name.clone());
        context.attempt = self.message.retry_count().saturating_add(1);
        // An earlier delivery may have ended with a crash, which leaves no trace in the message.
        context.redelivered = true;
        let mut service = self.processor.service.clone();
        let call = async move { service.ready().await?.call(context).await };
        match timeout(self.processor.options.timeout, AssertUnwindSafe(call).catch_unwind()).await {
            Ok(Ok(called)) => called.map_err(failure),
            Ok(Err(panic)) => Err(panicked(&*panic)),
            Err(_) => {
                Err(Failure::transient("the delivery took too long").with_code(Code::TIMEOUT))
            }
        }
    }

    async fn delivered(&mut self, report: &Report) -> Fate {
        let delete = Change::Delete(PoisonEnd::Delivered);
        match delete.make(&mut *self.message, self.until).await {
            Ok(()) => report.delivered(),
            Err(error) => report.left("delivered and not deleted", &error),
        }
    }

    async fn failed(
        &mut self,
        report: &Report,
        content: &Message,
        failure: &Failure,
        failed: &FailedTry,
    ) -> Fate {
        let decision = self.decide(content, failure);
        let Verdict::Retry { after } = decision.verdict else {
            return self.dead_letter(report, &decision.reason, Some(failed)).await;
        };
        let retry_count = self.message.retry_count().saturating_add(1);
        let retry = Change::Retry { retry_count, after, failed };
        match retry.make(&mut *self.message, self.until).await {
            Ok(()) => report.retried(retry_count, after, failure),
            Err(error) => report.left("failed and not updated", &error),
        }
    }

    /// What the strategy decides. One that panics must not lose the message, and none may wait longer than it declared.
    fn decide(&self, content: &Message, failure: &Failure) -> Decision {
        let mut ledger = content.ledger.clone();
        ledger.failed = self.message.retry_count();
        let mut random = self.processor.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ask = |strategy: &dyn RetryStrategy| {
            let mut decision = strategy.decide(&ledger, failure, &mut *random);
            if let Verdict::Retry { after } = &mut decision.verdict {
                *after = (*after).min(strategy.largest_delay()).min(LONGEST_DELAY);
            }
            decision
        };
        catch_unwind(AssertUnwindSafe(|| ask(&*self.processor.strategy))).unwrap_or_else(|_| {
            let queue = &self.processor.name;
            tracing::error!(%queue, message_id = %self.message.id(), "a retry strategy panicked; the default delays apply");
            let max_attempts = self.processor.options.max_attempts;
            let defaults = PoisonRetryOptions { max_attempts, ..PoisonRetryOptions::default() };
            match defaults.strategy() {
                Ok(strategy) => ask(&strategy),
                Err(_) => Decision::retry(&ledger, Duration::ZERO),
            }
        })
    }

    /// Stores the dead-letter record, and deletes the message only then.
    async fn dead_letter(
        &mut self,
        report: &Report,
        reason: &Reason,
        failed: Option<&FailedTry>,
    ) -> Fate {
        let at = self.processor.clock.now();
        let store = Change::StoreDeadLetter { reason, at, failed };
        if let Err(error) = store.make(&mut *self.message, self.until).await {
            return report.left("dead letter not stored", &error);
        }
        let delete = Change::Delete(PoisonEnd::DeadLettered);
        match delete.make(&mut *self.message, self.until).await {
            Ok(()) => report.dead_lettered(reason, failed),
            Err(error) => report.left("dead letter stored and message not deleted", &error),
        }
    }
}

/// Every error of a service is a failure here: nothing is released without using up a retry.
fn failure(error: HandlerError) -> Failure {
    match error {
        HandlerError::Failed(FailureError(failure))
        | HandlerError::Uncounted(UncountedError { failure, .. }) => failure,
        postponed @ (HandlerError::Postponed(_) | HandlerError::Snoozed(_)) => {
            Failure::transient(postponed).with_code(POSTPONED)
        }
    }
}

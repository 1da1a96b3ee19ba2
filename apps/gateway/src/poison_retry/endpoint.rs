//! Delivers a message of a poison queue to its endpoint, by rules of its own.
//!
//! They are literal: whatever an endpoint answers is a retry, unless it accepts the message or rejects it for good by an
//! HL7 acknowledgement. No connection is a retry too. The breaker and the blame of routes do not apply.

use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use bezoar::{
    Context, Failure, FailureError, FailureKind,
    poison_retry::{DeliveryOutcome, EndpointAnswer, outcome},
};
use futures_util::future::BoxFuture;
use tower::{BoxError, Service};

use crate::endpoint::{CallReport, EndpointCaller, Verdict};

/// The endpoint of a poison queue. Clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct PoisonEndpoint(pub(super) Arc<EndpointCaller>);

impl Service<Context> for PoisonEndpoint {
    type Response = ();
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<(), BoxError>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let caller = self.0.clone();
        Box::pin(async move { conclude(&caller.call(&context).await) })
    }
}

fn conclude(report: &CallReport) -> Result<(), BoxError> {
    let failure = report.failure().unwrap_or_else(|| Failure::transient("not delivered"));
    match outcome(answer(report)) {
        DeliveryOutcome::Delete => Ok(()),
        DeliveryOutcome::Retry => Err(FailureError(retryable(failure)).into()),
        DeliveryOutcome::DeadLetter => Err(FailureError(permanent(failure)).into()),
    }
}

fn answer(report: &CallReport) -> EndpointAnswer {
    match report.verdict() {
        Verdict::Accepted => EndpointAnswer::Accepted,
        Verdict::Rejected => EndpointAnswer::Rejected,
        Verdict::Refused if report.error().is_some() => EndpointAnswer::Missing,
        Verdict::Refused => EndpointAnswer::Refused,
    }
}

/// On a route some statuses are final. Here none is.
fn retryable(mut failure: Failure) -> Failure {
    if !failure.kind.is_retryable() {
        failure.kind = FailureKind::ExternalService;
    }
    failure
}

fn permanent(mut failure: Failure) -> Failure {
    failure.kind = FailureKind::Permanent;
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_is_retried() {
        for &kind in FailureKind::ALL {
            assert!(retryable(Failure::new(kind, "refused")).kind.is_retryable(), "{kind}");
        }
        assert_eq!(permanent(Failure::transient("AR")).kind, FailureKind::Permanent);
    }
}

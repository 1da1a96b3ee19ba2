//! Delivers messages to an endpoint, as a `tower::Service`.

use std::{
    fmt,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use bezoar::{
    Clock, Code, Context, Failure, FailureError, Postpone, UncountedError,
    blame::{CallOutcome, Judgement},
};
use futures_util::future::BoxFuture;
use tower::{BoxError, Service};

use super::{
    EndpointCaller, EndpointClient, EndpointOptions, PauseRequest, RouteBreaker,
    breaker::Permit,
    call_report::OK,
    classify::{Meaning, classify},
    hl7::Unsendable,
    options::OnPause,
    rate_limit::Limiter,
};

/// How long a message is handed back when its route must pause: long enough for the pause to take effect.
const UNTIL_PAUSED: Duration = Duration::from_secs(10);

/// Delivers messages to an endpoint by HTTP. Clones share their state.
///
/// `Ok` means that the endpoint took it. An error is a [`FailureError`], which counts as an attempt, an [`UncountedError`],
/// which failed and uses up no retry, or a [`Postpone`], where nothing was tried. Dropping the future ends the request and closes its connection.
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointInner>);

struct EndpointInner {
    caller: EndpointCaller,
    max_retry_after: Duration,
    breaker: RouteBreaker,
    limiter: Option<Limiter>,
    on_pause: Option<OnPause>,
    clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// An endpoint that uses `client`; sends nothing yet.
    pub fn new(options: EndpointOptions, client: EndpointClient, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(EndpointInner {
            caller: EndpointCaller::new(options.call, client, clock.clone()),
            max_retry_after: options.max_retry_after,
            breaker: options.breaker,
            limiter: options.rate.map(Limiter::new),
            on_pause: options.on_pause,
            clock,
        }))
    }

    /// Its breaker, for the gate in front of a worker and for display.
    pub fn breaker(&self) -> &RouteBreaker {
        &self.0.breaker
    }

    /// The maximum duration of a call. A worker's own timeout should be longer, so that the endpoint's more specific
    /// failure is recorded.
    pub fn longest(&self) -> Duration {
        let rounds = if self.0.limiter.is_some() { 2 } else { 1 };
        self.0.caller.timeout() * rounds
    }
}

impl EndpointInner {
    async fn deliver(&self, context: &Context) -> Result<(), BoxError> {
        let unsendable = |it: Unsendable| FailureError(it.failure());
        let sendable = self.caller.prepare(context).map_err(unsendable)?;
        if let Some(limiter) = &self.limiter {
            self.breaker.check()?; // before the message waits for its turn
            limiter.turn(self.caller.timeout()).await.map_err(Postpone)?;
        }
        let permit = self.breaker.enter(context)?;
        let report = self.caller.send(sendable).await;
        self.conclude(classify(&report, self.clock.now(), self.max_retry_after), permit)
    }

    fn conclude(&self, meaning: Meaning, permit: Permit) -> Result<(), BoxError> {
        match meaning {
            Meaning::Done => {
                let _ = permit.end(CallOutcome::Done, &OK, self.clock.now());
                Ok(())
            }
            Meaning::NotDone(outcome, failure) => {
                let judgement = permit.end(outcome, &failure.code, self.clock.now());
                if judgement == Judgement::PauseRoute {
                    self.pause(failure.code.clone());
                }
                Err(refusal(judgement, failure))
            }
            Meaning::NotSent(failure) => Err(FailureError(failure).into()),
            Meaning::Denied(code) => {
                drop(permit); // this says nothing about the endpoint's health
                self.pause(code);
                Err(Postpone(UNTIL_PAUSED).into())
            }
        }
    }

    fn pause(&self, code: Code) {
        if let Some(on_pause) = &self.on_pause {
            on_pause(PauseRequest { code });
        }
    }
}

/// Converts a judged failure to the worker's error.
pub(super) fn refusal(judgement: Judgement, failure: Failure) -> BoxError {
    match judgement {
        Judgement::Uncounted { suspected } => UncountedError { failure, suspected }.into(),
        Judgement::PauseRoute => Postpone(UNTIL_PAUSED).into(),
        _ => FailureError(failure).into(), // `Counts`, and any that is not known here
    }
}

impl Service<Context> for Endpoint {
    type Response = ();
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<(), BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.deliver(&context).await })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", self.0.caller.url())
            .field("breaker", &self.0.breaker)
            .finish_non_exhaustive()
    }
}

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
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::{
    EndpointClient, EndpointOptions, EndpointUrl, PauseRequest, RouteBreaker,
    breaker::Permit,
    classify::{Meaning, classify, classify_no_reply},
    options::{OnPause, Traceparent},
    rate_limit::Limiter,
    request::Template,
};

/// How long a message is handed back when its route must pause: long enough for the pause to take effect.
const UNTIL_PAUSED: Duration = Duration::from_secs(10);

/// The code of a success, which is not shown anywhere.
pub(super) const OK: Code = Code::from_static("http.2xx");

/// The maximum duration of a call, whatever is configured.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Delivers messages to an endpoint by HTTP. Clones share their state.
///
/// `Ok` means that the endpoint took it. An error is a [`FailureError`], which counts as an attempt, an [`UncountedError`],
/// which failed and uses up no retry, or a [`Postpone`], where nothing was tried. Dropping the future ends the request and closes its connection.
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointInner>);

struct EndpointInner {
    template: Template,
    url: EndpointUrl,
    timeout: Duration,
    max_retry_after: Duration,
    breaker: RouteBreaker,
    limiter: Option<Limiter>,
    traceparent: Option<Traceparent>,
    on_pause: Option<OnPause>,
    client: EndpointClient,
    clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// An endpoint that uses `client`; sends nothing yet.
    pub fn new(options: EndpointOptions, client: EndpointClient, clock: Arc<dyn Clock>) -> Self {
        let template = Template::new(&options.url, options.headers, options.secrets);
        Self(Arc::new(EndpointInner {
            template,
            url: options.url,
            timeout: options.timeout.min(LONGEST),
            max_retry_after: options.max_retry_after,
            breaker: options.breaker,
            limiter: options.rate.map(Limiter::new),
            traceparent: options.traceparent,
            on_pause: options.on_pause,
            client,
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
        self.0.timeout * rounds
    }
}

impl EndpointInner {
    async fn deliver(&self, context: &Context) -> Result<(), BoxError> {
        self.breaker.check()?;
        if let Some(limiter) = &self.limiter {
            limiter.turn(self.timeout).await.map_err(Postpone)?;
        }
        let permit = self.breaker.enter(context)?;
        let meaning = self.exchange(context).await;
        self.conclude(meaning, permit)
    }

    /// One request, and what its reply means.
    async fn exchange(&self, context: &Context) -> Meaning {
        let deadline = Instant::now() + self.timeout;
        let traceparent = self.traceparent.as_ref().and_then(|of| of(context));
        let request = self.template.request(context, self.clock.now(), traceparent);
        match self.client.send(request, deadline).await {
            Ok(reply) => classify(&reply, self.clock.now(), self.max_retry_after),
            Err(no_reply) => classify_no_reply(&no_reply),
        }
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
            .field("url", &self.0.url)
            .field("breaker", &self.0.breaker)
            .finish_non_exhaustive()
    }
}

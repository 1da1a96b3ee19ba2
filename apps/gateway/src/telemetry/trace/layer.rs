//! A tower layer that puts a span around each try.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use bezoar::{Code, Context, Failure, FailureError, HandlerError, UncountedError};
use tower::{Layer, Service};
use tracing::{Instrument, Span};

use super::spans::{attempt_span, ended};

/// Puts each try into a span of its message's trace.
///
/// It belongs directly around the endpoint, inside everything that may hold a message back, so that only real tries have
/// spans.
#[derive(Debug, Clone)]
pub struct TraceLayer {
    route: Arc<str>,
}

impl TraceLayer {
    /// For the tries of a route.
    pub fn new(route: &str) -> Self {
        Self { route: route.into() }
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService { inner, route: self.route.clone() }
    }
}

/// The service of [`TraceLayer`].
#[derive(Debug, Clone)]
pub struct TraceService<S> {
    inner: S,
    route: Arc<str>,
}

impl<S> Service<Context> for TraceService<S>
where
    S: Service<Context, Response = (), Error = HandlerError>,
    S::Future: Send + 'static,
{
    type Response = ();
    type Error = HandlerError;
    type Future = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;

    fn poll_ready(&mut self, task: &mut TaskContext<'_>) -> Poll<Result<(), HandlerError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let span = attempt_span(&self.route, &context);
        if span.is_disabled() {
            return Box::pin(self.inner.call(context));
        }
        let trying = span.in_scope(|| self.inner.call(context));
        let ending = SpanEnd(Some(span.clone()));
        Box::pin(async move { ending.with(trying.await) }.instrument(span))
    }
}

/// Marks a try that is cancelled, by a timeout or a lost lease, as failed.
struct SpanEnd(Option<Span>);

impl SpanEnd {
    fn with(mut self, outcome: Result<(), HandlerError>) -> Result<(), HandlerError> {
        if let Some(span) = self.0.take() {
            match &outcome {
                Ok(()) => ended(&span, Ok(())),
                Err(
                    HandlerError::Failed(FailureError(failure))
                    | HandlerError::Uncounted(UncountedError { failure, .. }),
                ) => {
                    ended(&span, Err(word(failure)));
                }
                Err(_) => {
                    span.record("bezoar.postponed", true);
                }
            }
        }
        outcome
    }
}

impl Drop for SpanEnd {
    fn drop(&mut self) {
        if let Some(span) = self.0.take() {
            ended(&span, Err("cancelled"));
        }
    }
}

/// The failure's code, or its kind if it has no code. Never its detail.
fn word(failure: &Failure) -> &str {
    match &failure.code {
        code if *code == Code::UNKNOWN => failure.kind.as_str(),
        code => code.as_str(),
    }
}

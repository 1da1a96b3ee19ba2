//! A tower layer that measures each try.

use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use bezoar::{Context, HandlerError};
use tower::{Layer, Service};

use super::{RouteMetrics, measured_try::MeasuredTry};

/// Measures the duration and number of tries.
///
/// It belongs directly around the endpoint, inside everything that may hold a message back, so that only real tries are
/// measured.
#[derive(Debug, Clone)]
pub struct MeasureLayer {
    route: RouteMetrics,
}

impl MeasureLayer {
    /// For the tries of a route.
    pub fn new(route: RouteMetrics) -> Self {
        Self { route }
    }
}

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Measure<S> {
        Measure { inner, route: self.route.clone() }
    }
}

/// The service of [`MeasureLayer`].
#[derive(Debug, Clone)]
pub struct Measure<S> {
    inner: S,
    route: RouteMetrics,
}

impl<S> Service<Context> for Measure<S>
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
        let this_try = MeasuredTry::begin(&self.route, &context);
        let trying = self.inner.call(context);
        Box::pin(async move {
            let outcome = trying.await;
            this_try.ended(&outcome);
            outcome
        })
    }
}

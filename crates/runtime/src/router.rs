//! Picks the handler by the type of a message.

use std::{collections::HashMap, fmt, sync::Arc, task::Poll};

use bezoar_core::{Code, Failure};
use futures_util::future::BoxFuture;
use tower::Service;

use crate::{Context, Failed, Handler};

type Route<S> = Arc<dyn Fn(Context, S) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync>;

/// Handlers by message type, and the state that they share.
///
/// It is a `tower::Service`, so that any `tower::Layer` goes around it. A message whose type has no
/// handler is a permanent failure.
#[derive(Clone)]
pub struct Router<S = ()> {
    routes: HashMap<String, Route<S>>,
    fallback: Option<Route<S>>,
    state: S,
}

impl Router {
    /// No handlers yet, no state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + Sync + 'static> Router<S> {
    /// No handlers yet; `state` is cloned for every message.
    pub fn with_state(state: S) -> Self {
        Self { routes: HashMap::new(), fallback: None, state }
    }

    /// Messages of this type go to `handler`; one given earlier for the same type is replaced.
    pub fn on<P: 'static>(
        mut self,
        message_type: impl Into<String>,
        handler: impl Handler<P, S>,
    ) -> Self {
        self.routes.insert(message_type.into(), erase(handler));
        self
    }

    /// Messages of every other type go to `handler`.
    pub fn fallback<P: 'static>(mut self, handler: impl Handler<P, S>) -> Self {
        self.fallback = Some(erase(handler));
        self
    }

    fn route(&self, context: Context) -> BoxFuture<'static, Result<(), Failure>> {
        let route =
            self.routes.get(context.message.message_type.as_str()).or(self.fallback.as_ref());
        match route {
            Some(route) => route(context, self.state.clone()),
            None => Box::pin(async {
                Err(Failure::permanent("no handler for this type").with_code(Code::NO_HANDLER))
            }),
        }
    }
}

fn erase<P: 'static, S: Send + 'static>(handler: impl Handler<P, S>) -> Route<S> {
    Arc::new(move |context, state| Box::pin(handler.clone().call(context, state)))
}

impl<S: Clone + Send + Sync + 'static> Service<Context> for Router<S> {
    type Response = ();
    type Error = Failed;
    type Future = BoxFuture<'static, Result<(), Failed>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let handled = self.route(context);
        Box::pin(async move { handled.await.map_err(Failed) })
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.routes.keys()).finish()
    }
}

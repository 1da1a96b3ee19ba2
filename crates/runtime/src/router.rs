//! Picks the handler by the type of a message.

use std::{collections::HashMap, fmt, future::ready, sync::Arc, task::Poll};

use bezoar_core::{Code, Failure};
use futures_util::future::BoxFuture;
use tower::Service;

use crate::{Context, FailureError, FromMessage, Handler, HandlerResult};

type Handled = BoxFuture<'static, Result<(), Failure>>;
type Route<S> = Arc<dyn Fn(&Context, &S) -> Handled + Send + Sync>;

/// Handlers by message type, and the state that they share. Cheap to clone.
///
/// It is a `tower::Service`, so that any `tower::Layer` goes around it. A message whose type has no
/// handler is a permanent failure.
pub struct Router<S = ()> {
    table: Arc<Table<S>>,
}

#[derive(Clone)]
struct Table<S> {
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
    /// No handlers yet. A message clones of `state` what its handler takes as [`State`](crate::State).
    pub fn with_state(state: S) -> Self {
        let table = Table { routes: HashMap::new(), fallback: None, state };
        Self { table: Arc::new(table) }
    }

    /// Messages of this type go to `handler`; one given earlier for the same type is replaced.
    pub fn on<P, H>(mut self, message_type: impl Into<String>, handler: H) -> Self
    where
        H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
        P: FromMessage<S> + 'static,
    {
        let table = Arc::make_mut(&mut self.table);
        table.routes.insert(message_type.into(), erase(handler));
        self
    }

    /// Messages of every other type go to `handler`.
    pub fn fallback<P, H>(mut self, handler: H) -> Self
    where
        H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
        P: FromMessage<S> + 'static,
    {
        Arc::make_mut(&mut self.table).fallback = Some(erase(handler));
        self
    }

    fn route(&self, context: &Context) -> Handled {
        let Table { routes, fallback, state } = &*self.table;
        match routes.get(context.message.message_type.as_str()).or(fallback.as_ref()) {
            Some(route) => route(context, state),
            None => {
                failed(Failure::permanent("no handler for this type").with_code(Code::NO_HANDLER))
            }
        }
    }
}

fn erase<P, S, H>(handler: H) -> Route<S>
where
    H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
    P: FromMessage<S>,
{
    Arc::new(move |context, state| match P::from_message(context, state) {
        Ok(parameters) => {
            let handled = handler.clone().call(parameters);
            Box::pin(async move { handled.await.into_result() })
        }
        Err(failure) => failed(failure),
    })
}

fn failed(failure: Failure) -> Handled {
    Box::pin(ready(Err(failure)))
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone() }
    }
}

impl<S: Clone + Send + Sync + 'static> Service<Context> for Router<S> {
    type Response = ();
    type Error = FailureError;
    type Future = BoxFuture<'static, Result<(), FailureError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), FailureError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let handled = self.route(&context);
        Box::pin(async move { handled.await.map_err(FailureError) })
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table.routes.keys()).finish()
    }
}

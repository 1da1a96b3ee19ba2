//! Picks the handler by the type of a message.

use std::{collections::HashMap, error::Error, fmt, future::ready, sync::Arc, task::Poll};

use bezoar_core::{Classification, Classifier, Code, Failure};
use futures_util::future::BoxFuture;
use tower::Service;

use crate::{
    BatchHandler, BatchOptions, BatchResult, Context, FromMessage, Handler, HandlerError,
    HandlerResult, TypedParameters, batch::Collector,
};

type Handled = BoxFuture<'static, Result<(), HandlerError>>;
type Route<S> = Arc<dyn Fn(Context, &Arc<Table<S>>) -> Handled + Send + Sync>;

/// Handlers by message type, and the state that they share. Cheap to clone.
///
/// It is a `tower::Service`, so that any `tower::Layer` can wrap it. A message whose type has no
/// handler fails permanently.
pub struct Router<S = ()> {
    table: Arc<Table<S>>,
}

#[derive(Clone)]
struct Table<S> {
    routes: HashMap<String, Route<S>>,
    fallback: Option<Route<S>>,
    classifier: Classifier,
    state: S,
}

impl Router {
    /// A router without handlers and without state.
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
    /// A router without handlers. A handler that takes [`State`](crate::State) gets a clone of `state`, or of a part.
    pub fn with_state(state: S) -> Self {
        let (routes, classifier) = (HashMap::new(), Classifier::default());
        Self { table: Arc::new(Table { routes, fallback: None, classifier, state }) }
    }

    /// Sends messages of this type to `handler`; replaces an earlier handler for the type.
    pub fn on<P, H>(self, message_type: impl Into<String>, handler: H) -> Self
    where
        H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
        P: FromMessage<S> + 'static,
    {
        self.insert(message_type, erase(handler))
    }

    /// Sends messages to `handler` by the type of its first parameter, a `Json<T>` where `T` is a
    /// [`TypedMessage`](crate::TypedMessage).
    pub fn on_message<P, H>(self, handler: H) -> Self
    where
        H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
        P: FromMessage<S> + TypedParameters + 'static,
    {
        self.insert(P::TYPE, erase(handler))
    }

    /// Sends messages of this type to `handler`, several in one call.
    ///
    /// ```
    /// use bezoar_runtime::{Batch, BatchOptions, Json, Router};
    ///
    /// async fn store_all(Batch(values): Batch<Json<f64>>) -> Vec<Result<(), std::io::Error>> {
    ///     values.iter().map(|Json(value)| Ok(println!("{value}"))).collect()
    /// }
    ///
    /// let router = Router::new().on_batch("lab.result", BatchOptions::default(), store_all);
    /// ```
    ///
    /// Each message keeps its own attempt, lease, timeout and outcome:
    ///
    /// - A batch contains at most the messages that the worker handles at a time, so give the
    ///   worker a [`concurrency`](crate::Worker::concurrency) of at least the batch's size.
    /// - The [`timeout`](crate::Worker::timeout) of a message runs from when it joins the batch. If it times out or
    ///   loses its lease, the handler continues for the others; if all do, the handler is dropped.
    /// - A panic fails each message of the batch with an attempt of its own.
    /// - A message from which a parameter cannot be extracted fails alone, before it joins.
    /// - Layers see each message on its own.
    pub fn on_batch<I, P, H>(
        self,
        message_type: impl Into<String>,
        options: BatchOptions,
        handler: H,
    ) -> Self
    where
        H: BatchHandler<I, P, S, Future: Send + 'static, Output: BatchResult>,
        I: FromMessage<S> + 'static,
    {
        let state = self.table.state.clone();
        let collector = Collector::new(
            options,
            Box::new(move |items: Vec<I>| {
                let count = items.len();
                let handled = handler.clone().call(crate::Batch(items), &state);
                Box::pin(async move { handled.await.into_results(count) })
            }),
        );
        let route = move |context, table: &Arc<Table<S>>| {
            let (collector, table) = (collector.clone(), table.clone());
            let handled = async move {
                let item = table.extract(&context).await?;
                let handled = collector.handle(item).await;
                handled.map_err(|failure| table.handler_error(failure))
            };
            Box::pin(handled) as Handled
        };
        self.insert(message_type, Arc::new(route))
    }

    /// Sends messages of every other type to `handler`.
    pub fn fallback<P, H>(mut self, handler: H) -> Self
    where
        H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
        P: FromMessage<S> + 'static,
    {
        Arc::make_mut(&mut self.table).fallback = Some(erase(handler));
        self
    }

    /// Defines what errors of one type mean: whether the message is retried, and under which code causes are
    /// grouped.
    ///
    /// ```
    /// use bezoar_core::FailureKind;
    /// use bezoar_runtime::Router;
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// enum LabError {
    ///     #[error("the value is negative")]
    ///     Implausible,
    ///     #[error("the archive is not responding")]
    ///     Archive(#[from] std::io::Error),
    /// }
    ///
    /// impl LabError {
    ///     fn kind(&self) -> FailureKind {
    ///         match self {
    ///             Self::Implausible => FailureKind::Permanent,
    ///             Self::Archive(_) => FailureKind::ExternalService,
    ///         }
    ///     }
    /// }
    ///
    /// let router = Router::new().classify(LabError::kind);
    /// ```
    ///
    /// A rule returns a [`FailureKind`](bezoar_core::FailureKind), a kind with a [`Code`], or a [`Classification`]. It
    /// applies to all handlers of this router, for their own errors and for those of other crates: returned directly,
    /// by `?`, or as the source of another error. The outermost error that a rule recognizes decides; *unknown* leaves
    /// the decision to its source. A [`Failure`] with an explicit kind keeps it.
    pub fn classify<E, C>(mut self, rule: impl Fn(&E) -> C + Send + Sync + 'static) -> Self
    where
        E: Error + 'static,
        C: Into<Classification>,
    {
        Arc::make_mut(&mut self.table).classifier.add(rule);
        self
    }

    fn insert(mut self, message_type: impl Into<String>, route: Route<S>) -> Self {
        Arc::make_mut(&mut self.table).routes.insert(message_type.into(), route);
        self
    }

    fn route(&self, context: Context) -> Handled {
        let Table { routes, fallback, .. } = &*self.table;
        match routes.get(context.message.message_type.as_str()).or(fallback.as_ref()) {
            Some(route) => route(context, &self.table),
            None => {
                let failure = Failure::permanent("no handler for this type");
                Box::pin(ready(Err(failure.with_code(Code::NO_HANDLER).into())))
            }
        }
    }
}

impl<S: Sync> Table<S> {
    async fn extract<P: FromMessage<S>>(&self, context: &Context) -> Result<P, HandlerError> {
        let extracted = P::from_message(context, &self.state).await;
        extracted.map_err(|failure| self.handler_error(failure))
    }

    fn handler_error(&self, mut failure: Failure) -> HandlerError {
        self.classifier.classify(&mut failure);
        failure.into()
    }
}

/// One allocation per message, because extraction and handler are one future.
fn erase<P, S, H>(handler: H) -> Route<S>
where
    H: Handler<P, Future: Send + 'static, Output: HandlerResult>,
    P: FromMessage<S>,
    S: Send + Sync + 'static,
{
    Arc::new(move |context, table| {
        let (handler, table) = (handler.clone(), table.clone());
        Box::pin(async move {
            let parameters = table.extract(&context).await?;
            let handled = handler.call(parameters).await.into_result();
            handled.map_err(|failure| table.handler_error(failure))
        })
    })
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone() }
    }
}

impl<S: Clone + Send + Sync + 'static> Service<Context> for Router<S> {
    type Response = ();
    type Error = HandlerError;
    type Future = BoxFuture<'static, Result<(), HandlerError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        self.route(context)
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.table.routes.keys()).finish()
    }
}

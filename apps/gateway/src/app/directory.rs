//! Which queues and routes there are, and where a queue lives.
//!
//! Queues named `NAME/QUEUE` live on a broker, all others in the store: `broker` and `transport` make that distinction
//! here, `depth` makes it for counts, and nothing else in the API does.

use std::sync::Arc;

use bezoar::{QueueName, Transport, catalogue::Filter};

use super::App;
use crate::{api::Problem, broker::Broker, route::Route};

impl App {
    /// The broker of a queue; `None` if it is in the store.
    pub(crate) fn broker(&self, queue: &QueueName) -> Option<&Broker> {
        queue.as_str().split_once('/').and_then(|(name, _)| self.brokers.get(name))
    }

    /// The transport of a queue.
    pub(super) fn transport(&self, queue: &QueueName) -> Arc<dyn Transport> {
        match self.broker(queue) {
            Some(broker) => Arc::new(broker.clone()),
            None => self.bezoar.transport().clone(),
        }
    }

    /// The configured queues, by name.
    pub(crate) fn queues(&self) -> Vec<QueueName> {
        self.live(|live| live.queues.iter().cloned().collect())
    }

    /// Fails if a queue is not configured; the error lists those that the caller `sees`.
    pub(crate) fn known(
        &self,
        queue: &QueueName,
        sees: impl Fn(&QueueName) -> bool,
    ) -> Result<(), Problem> {
        self.live(|live| {
            if live.queues.contains(queue) {
                return Ok(());
            }
            let seen = live.queues.iter().filter(|queue| sees(queue));
            let known: Vec<_> = seen.map(ToString::to_string).collect();
            let detail = format!("unknown queue {queue:?}; known queues: {}", known.join(", "));
            Err(Problem::not_found(detail).with(|it| it.queues = Some(known)))
        })
    }

    /// Finds a route by name, among those that the caller `sees`.
    pub(crate) fn route(
        &self,
        name: &str,
        sees: impl Fn(&Route) -> bool,
    ) -> Result<Arc<Route>, Problem> {
        let seen: Vec<_> = self.routes().into_iter().filter(|route| sees(route)).collect();
        seen.iter().find(|route| route.name() == name).cloned().ok_or_else(|| {
            let known: Vec<_> = seen.iter().map(|route| route.name()).collect();
            let known = known.join(", ");
            Problem::not_found(format!("unknown route; known routes: {known}"))
        })
    }

    pub(crate) fn routes(&self) -> Vec<Arc<Route>> {
        self.live(|live| live.routes.values().cloned().collect())
    }

    /// Fails for a filter on a queue that is neither configured nor in the store: a misspelt name would silently match
    /// nothing. Queues that are no longer configured keep their dead letters and stay valid here.
    /// The error lists the queues that the caller `sees`.
    pub(crate) async fn covers(
        &self,
        filter: &Filter,
        sees: impl Fn(&QueueName) -> bool,
    ) -> Result<(), Problem> {
        let Some([queue]) = filter.queues.as_deref() else { return Ok(()) };
        match self.known(queue, sees) {
            Err(_) if self.bezoar.admin().queues().await?.contains(queue) => Ok(()),
            known => known,
        }
    }
}

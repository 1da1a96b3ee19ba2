//! What is known about the way back of delayed messages: which one it is, and that its bindings exist.
//!
//! The broker confirms what enters the delay queues, but not that bindings lead back to a queue. So they are created
//! before delayed messages are published, and again after a while. A return queue is used if it exists, so that all
//! processes agree; one that is created later is noticed after a while.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, QueueName, TransportError};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::{
    provision::bind,
    return_route::{ReturnRoute, return_queue_name},
};
use crate::{
    error::{PROVISION, error, for_queue, is_not_found},
    management::Management,
    transport::TransportState,
};

/// How long bindings are assumed to exist after they were checked.
const BOUND_FOR: Duration = Duration::from_secs(10);
/// How long a return queue is assumed to exist, or not to exist. Without the management API, each look at one that does not
/// exist is a line in the broker's log.
const KNOWN_FOR: Duration = Duration::from_secs(10 * 60);
/// How long a retry waits for the management API, at most.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The ways back to the queues that were used in the last while.
#[derive(Debug, Default)]
pub(crate) struct KnownRoutes(Mutex<HashMap<QueueName, KnownRoute>>);

#[derive(Debug, Clone, Copy)]
struct KnownRoute {
    route: ReturnRoute,
    looked_at: Instant,
    bound_at: Option<Instant>,
}

impl KnownRoutes {
    /// The route; the direct one if nothing is known.
    pub(crate) fn route(&self, queue: &QueueName) -> ReturnRoute {
        self.known(queue).map_or(ReturnRoute::Direct, |it| it.route)
    }

    pub(crate) fn learn(&self, queue: &QueueName, route: ReturnRoute) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        routes.retain(|_, it| it.looked_at.elapsed() < KNOWN_FOR);
        routes
            .insert(queue.clone(), KnownRoute { route, looked_at: Instant::now(), bound_at: None });
    }

    /// Forgets everything about a queue whose bindings may be gone.
    pub(crate) fn forget(&self, queue: &QueueName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }

    fn known(&self, queue: &QueueName) -> Option<KnownRoute> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied()
    }

    fn is_bound(&self, queue: &QueueName) -> bool {
        let bound_at = self.known(queue).and_then(|it| it.bound_at);
        bound_at.is_some_and(|at| at.elapsed() < BOUND_FOR)
    }

    fn bound(&self, queue: &QueueName) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = routes.get_mut(queue) {
            known.bound_at = Some(Instant::now());
        }
    }
}

impl TransportState {
    /// Looks up the route back to a queue, unless it is known. To be called before a message for it is delayed.
    pub(crate) async fn look_up_route(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<ReturnRoute, TransportError> {
        if let Some(known) =
            self.routes.known(queue).filter(|it| it.looked_at.elapsed() < KNOWN_FOR)
        {
            return Ok(known.route);
        }
        let route = self.existing_route(queue, operation).await?;
        self.routes.learn(queue, route);
        Ok(route)
    }

    /// The route back to a queue, by whether it has a return queue.
    pub(crate) async fn existing_route(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<ReturnRoute, TransportError> {
        self.existing_route_by(self.management.as_deref(), queue, operation).await
    }

    /// The same, with a client of the management API that may know it.
    pub(crate) async fn existing_route_by(
        &self,
        management: Option<&Management>,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<ReturnRoute, TransportError> {
        let Ok(name) = return_queue_name(queue) else { return Ok(ReturnRoute::Direct) };
        let exists = match is_described(management, &name, operation).await {
            Some(exists) => exists,
            None => self.has_queue(&name, operation).await?,
        };
        Ok(if exists { ReturnRoute::ThroughQueue } else { ReturnRoute::Direct })
    }

    /// Creates the bindings that lead delayed messages back to `queue`, unless they were checked a moment ago.
    pub(crate) async fn bind_delays(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        if self.routes.is_bound(queue) {
            return Ok(());
        }
        let route = self.look_up_route(queue, operation).await?;
        let wanted = route.topology(queue, &self.options);
        let wanted = wanted.map_err(|it| error(ErrorKind::Invalid(it), operation))?.bindings;
        let channel = self.requests.request_channel(operation).await?;
        // All requests are written before the first reply is awaited. After a refusal every later one fails with the same
        // error, so the first that fails is the one that was refused.
        let binding = join_all(wanted.iter().map(|it| bind(&channel, it)));
        let bound = self.requests.with_timeout(binding, operation).await?;
        for (wanted, bound) in wanted.iter().zip(bound) {
            match bound {
                Ok(()) => (),
                Err(source) if is_not_found(&source) => {
                    self.routes.forget(queue);
                    self.ready_count(queue, queue.as_str(), operation).await?;
                    if route == ReturnRoute::ThroughQueue
                        && self.existing_route(queue, operation).await? == ReturnRoute::Direct
                    {
                        let deleted = "its return queue was deleted; the next try goes without it";
                        return Err(error(ErrorKind::Unavailable, operation).with_source(deleted));
                    }
                    let missing = format!("exchange {:?} is missing; {PROVISION}", wanted.from);
                    return Err(error(ErrorKind::Unusable, operation).with_source(missing));
                }
                Err(source) => return Err(for_queue(&source, queue, operation)),
            }
        }
        self.requests.reuse(channel);
        self.routes.bound(queue);
        Ok(())
    }
}

/// Whether the management API knows a queue; `None` if it does not answer soon.
async fn is_described(
    management: Option<&Management>,
    name: &str,
    operation: &'static str,
) -> Option<bool> {
    let answer = management?.queue(name, operation);
    Some(timeout(ANSWER_WITHIN, answer).await.ok()?.ok()?.is_some())
}

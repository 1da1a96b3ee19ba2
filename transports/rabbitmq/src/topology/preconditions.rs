//! What must exist before a message is consumed: a place for its dead letter.
//!
//! RabbitMQ silently drops a message when it is dead-lettered to an exchange that does not exist or is bound to no
//! queue. So the route of dead letters is checked on subscribing and after each reconnect. Other arguments of the queues
//! are not ours to require; `validate` reports those that lose messages.

use bezoar_core::{ErrorKind, QueueName, TransportError};

use crate::{
    DeadLettering,
    check::findings::{DescribedQueue, QueueRole, read_refusal},
    error::{error, from_lapin},
    management::Management,
    topology::provision::{bind, declare_exchange, declare_queue},
    topology::{Binding, Topology, dead_letter_route::DeadLetterRoute},
    transport::TransportState,
};

impl TransportState {
    /// Makes sure that dead letters of `queue` are kept: exchange, queue and binding exist and are durable. Changes
    /// nothing, except that it creates a missing binding if there is no management API to look it up.
    pub(crate) async fn ensure_dead_lettering(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let invalid = |invalid| error(ErrorKind::Invalid(invalid), operation);
        let topology = Topology::without_delays(queue, &self.options).map_err(invalid)?;
        let route = DeadLetterRoute::of(queue, &self.options).map_err(invalid)?;
        self.ensure_exchange(&topology, operation).await?;
        for wanted in topology.queues.iter().filter(|it| it.name != queue.as_str()) {
            if !self.has_queue(&wanted.name, operation).await? {
                return Err(unfit(&format!("queue {:?} does not exist", wanted.name), operation));
            }
            let declared = self.declared_again(&topology, &wanted.name, operation).await?;
            accepted(declared, &format!("queue {:?}", wanted.name), operation)?;
        }
        match self.options.dead_lettering {
            DeadLettering::Publish => self.ensure_bound(&route, operation).await,
            DeadLettering::Reject => {
                self.ensure_rejectable(queue, &topology, &route, operation).await
            }
        }
    }

    async fn ensure_exchange(
        &self,
        topology: &Topology,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let Some(exchange) = topology.exchanges.first() else { return Ok(()) };
        let name = &exchange.name;
        if !self.has_exchange(name, operation).await? {
            return Err(unfit(&format!("exchange {name:?} does not exist"), operation));
        }
        let channel = self.requests.request_channel(operation).await?;
        let declaring = declare_exchange(&channel, exchange);
        let declared = self.requests.with_timeout(declaring, operation).await?;
        self.requests.reuse(channel);
        accepted(declared, &format!("exchange {name:?}"), operation)
    }

    /// Declares an existing queue of the topology again: the broker refuses if an argument differs, and names the first.
    pub(crate) async fn declared_again(
        &self,
        topology: &Topology,
        name: &str,
        operation: &'static str,
    ) -> Result<lapin::Result<()>, TransportError> {
        let Some(wanted) = topology.queues.iter().find(|it| it.name == name) else {
            return Ok(Ok(()));
        };
        let channel = self.requests.request_channel(operation).await?;
        let declared =
            self.requests.with_timeout(declare_queue(&channel, wanted), operation).await?;
        self.requests.reuse(channel);
        Ok(declared)
    }

    async fn ensure_bound(
        &self,
        route: &DeadLetterRoute,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let DeadLetterRoute { exchange, key, queue } = route;
        if exchange.is_empty() {
            return Ok(());
        }
        if let Some(management) = &self.management
            && let Ok(problem) = publishes_problem(management, route, operation).await
        {
            return problem.map_or(Ok(()), |problem| Err(unfit(&problem, operation)));
        }
        let binding = Binding { from: exchange.clone(), to: queue.clone(), key: key.clone() };
        let channel = self.requests.request_channel(operation).await?;
        let bound = self.requests.with_timeout(bind(&channel, &binding), operation).await?;
        self.requests.reuse(channel);
        accepted(bound, &format!("the binding of queue {queue:?}"), operation)
    }

    /// Makes sure that the broker itself moves rejected messages to the dead-letter queue, by arguments or by a policy.
    async fn ensure_rejectable(
        &self,
        queue: &QueueName,
        topology: &Topology,
        route: &DeadLetterRoute,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        if let Some(management) = &self.management {
            let problem = rejects_problem(management, queue, route, operation).await?;
            return problem.map_or(Ok(()), |problem| Err(unfit(&problem, operation)));
        }
        let declared = self.declared_again(topology, queue.as_str(), operation).await?;
        let Err(source) = declared else { return self.ensure_bound(route, operation).await };
        let problem = match (from_lapin(&source, operation).kind, read_refusal(&source.to_string()))
        {
            (ErrorKind::NotAuthorized, _) => "the user may not look at its arguments".to_owned(),
            (ErrorKind::Unusable, Some((argument, there, wanted))) => {
                format!("its argument {argument} is {there}, expected {wanted}")
            }
            _ => return Err(from_lapin(&source, operation)),
        };
        Err(error(ErrorKind::Unusable, operation).with_source(format!(
            "it is not known whether queue {:?} keeps rejected messages: {problem}; set management_url, so that its \
             dead-letter exchange can be looked up, or dead-letter by publish",
            queue.as_str()
        )))
    }
}

/// Why messages that are published to the dead-letter exchange would not reach the dead-letter queue; `None` if they
/// would.
pub(crate) async fn publishes_problem(
    management: &Management,
    DeadLetterRoute { exchange, key, queue }: &DeadLetterRoute,
    operation: &'static str,
) -> Result<Option<String>, TransportError> {
    let behind = management.queues_behind(exchange, key, operation).await?;
    Ok((!behind.contains(queue)).then(|| not_bound(exchange, key, queue)))
}

/// Why messages that are rejected from `queue` would not reach its dead-letter queue; `None` if they would.
pub(crate) async fn rejects_problem(
    management: &Management,
    queue: &QueueName,
    route: &DeadLetterRoute,
    operation: &'static str,
) -> Result<Option<String>, TransportError> {
    let name = queue.as_str();
    let seen = management.queue(name, operation).await?.unwrap_or_default();
    let described = DescribedQueue::new(name, QueueRole::Work, &seen);
    let Some((exchange, key)) = described.dead_letter_exchange() else {
        return Ok(Some(format!(
            "queue {name:?} has no dead-letter exchange (set one by a policy: dead-letter-exchange {:?}, \
             dead-letter-routing-key {:?}; or dead-letter by publish)",
            route.exchange, route.key
        )));
    };
    // Without a routing key of its own the queue keeps the key of each message, which is unknown here.
    let Some(key) = key else { return Ok(None) };
    let behind = management.queues_behind(&exchange, &key, operation).await?;
    Ok((!behind.contains(&route.queue)).then(|| not_bound(&exchange, &key, &route.queue)))
}

fn not_bound(exchange: &str, key: &str, queue: &str) -> String {
    format!("exchange {exchange:?} is not bound to queue {queue:?} with routing key {key:?}")
}

/// Refuses only what is not durable. Other differences are accepted, and so is a missing permission to ask.
fn accepted(
    declared: lapin::Result<()>,
    what: &str,
    operation: &'static str,
) -> Result<(), TransportError> {
    let Err(source) = declared else { return Ok(()) };
    let failed = from_lapin(&source, operation);
    match failed.kind {
        ErrorKind::NotAuthorized => Ok(()),
        ErrorKind::Unusable => match read_refusal(&source.to_string()) {
            Some((argument, ..)) if argument == "durable" => {
                Err(unfit(&format!("{what} is not durable"), operation))
            }
            _ => Ok(()),
        },
        _ => Err(failed),
    }
}

fn unfit(problem: &str, operation: &'static str) -> TransportError {
    error(ErrorKind::Unusable, operation).with_source(format!(
        "{problem}: dead letters would be lost; provision the queue, or see what `bezoar check` finds"
    ))
}

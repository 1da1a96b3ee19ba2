//! What must exist before a message is consumed: a place for its dead letter.
//!
//! RabbitMQ silently drops a message when it is dead-lettered to an exchange that does not exist or is bound to no
//! queue. So exchange, queue and binding are checked on subscribing and after each reconnect.

use bezoar_core::{ErrorKind, QueueName, TransportError};

use crate::{
    DeadLettering,
    check::findings::read_refusal,
    error::{error, from_lapin},
    topology::provision::{bind, declare_exchange, declare_queue},
    topology::{Binding, Queue, Topology},
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
        let topology = Topology::for_queue(queue, self.options.queue_type)
            .map_err(|invalid| error(ErrorKind::Invalid(invalid), operation))?;
        for exchange in &topology.exchanges {
            self.ensure_exchange(exchange, operation).await?;
        }
        for wanted in &topology.queues {
            let is_work = wanted.name == queue.as_str();
            if !is_work {
                self.ensure_there(queue, &wanted.name, operation).await?;
            }
            if !is_work || self.options.dead_lettering == DeadLettering::Reject {
                self.ensure_lasting(wanted, operation).await?;
            }
        }
        match topology.bindings.first() {
            Some(binding) => self.ensure_bound(binding, operation).await,
            None => Ok(()),
        }
    }

    async fn ensure_exchange(
        &self,
        name: &str,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        if !self.has_exchange(name, operation).await? {
            return Err(unfit(&format!("exchange {name:?} does not exist"), operation));
        }
        let channel = self.requests.request_channel(operation).await?;
        let declared =
            self.requests.with_timeout(declare_exchange(&channel, name), operation).await?;
        self.requests.reuse(channel);
        accepted(declared, &format!("exchange {name:?}"), &["durable", "type"], operation)
    }

    async fn ensure_there(
        &self,
        queue: &QueueName,
        name: &str,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        match self.ready_count(queue, name, operation).await {
            Err(failed) if matches!(failed.kind, ErrorKind::QueueNotFound(_)) => {
                Err(unfit(&format!("queue {name:?} does not exist"), operation))
            }
            looked => looked.map(|_| ()),
        }
    }

    /// Declares an existing queue again: the broker refuses if an argument differs, and names it.
    async fn ensure_lasting(
        &self,
        wanted: &Queue,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let declared = declare_queue(&channel, wanted);
        let declared = self.requests.with_timeout(declared, operation).await?;
        self.requests.reuse(channel);
        // The broker names only the first difference, which may hide another. When messages are rejected, the work
        // queue's dead-letter arguments matter, so any difference counts.
        let matters: &[&str] = match self.options.dead_lettering {
            DeadLettering::Publish => &["durable"],
            DeadLettering::Reject => &[],
        };
        accepted(declared, &format!("queue {:?}", wanted.name), matters, operation)
    }

    async fn ensure_bound(
        &self,
        binding: &Binding,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let Binding { from, to, key } = binding;
        if let Some(management) = &self.management
            && let Ok(there) = management.bindings_from(from, operation).await
        {
            let leads =
                there.iter().any(|it| it["destination"] == **to && it["routing_key"] == **key);
            let missing =
                || unfit(&format!("exchange {from:?} is not bound to queue {to:?}"), operation);
            return leads.then_some(()).ok_or_else(missing);
        }
        let channel = self.requests.request_channel(operation).await?;
        let bound = self.requests.with_timeout(bind(&channel, binding), operation).await?;
        self.requests.reuse(channel);
        accepted(bound, &format!("the binding of queue {to:?}"), &[], operation)
    }
}

/// Accepts a difference that does not matter here, which `validate` reports, and a missing permission to ask. With an
/// empty `matters` every difference matters.
fn accepted(
    declared: lapin::Result<()>,
    what: &str,
    matters: &[&str],
    operation: &'static str,
) -> Result<(), TransportError> {
    let Err(source) = declared else { return Ok(()) };
    let failed = from_lapin(&source, operation);
    match failed.kind {
        ErrorKind::NotAuthorized => Ok(()),
        ErrorKind::Unusable => match read_refusal(&source.to_string()) {
            Some((argument, there, wanted))
                if matters.is_empty() || matters.contains(&argument.as_str()) =>
            {
                let problem = format!("{what} has {argument} {there}, expected {wanted}");
                Err(unfit(&problem, operation))
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

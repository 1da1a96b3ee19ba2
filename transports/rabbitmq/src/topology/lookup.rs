//! Looks up exchanges, queues and where a routing key leads, and changes nothing.

use std::collections::BTreeSet;

use bezoar_core::TransportError;
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};

use crate::{
    check::binding_routes::{self, BindingTarget},
    error::{from_lapin, is_not_found},
    management::Management,
    transport::TransportState,
};

/// How many exchanges are followed at most.
const FOLLOW_LIMIT: usize = 100;

impl TransportState {
    /// Whether an exchange exists. Needs no permission.
    pub(crate) async fn has_exchange(
        &self,
        exchange: &str,
        operation: &'static str,
    ) -> Result<bool, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
        // A passive declaration ignores the kind.
        let kind = ExchangeKind::Direct;
        let declare =
            channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default());
        let answer = self.requests.with_timeout(declare, operation).await?;
        self.requests.reuse(channel);
        exists(answer, operation)
    }

    /// Whether a queue exists. Needs no permission.
    pub(crate) async fn has_queue(
        &self,
        queue: &str,
        operation: &'static str,
    ) -> Result<bool, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        let declare = channel.queue_declare(queue.into(), passive, FieldTable::default());
        let answer = self.requests.with_timeout(declare, operation).await?;
        self.requests.reuse(channel);
        exists(answer.map(|_| ()), operation)
    }
}

fn exists(declared: lapin::Result<()>, operation: &'static str) -> Result<bool, TransportError> {
    match declared {
        Ok(()) => Ok(true),
        Err(source) if is_not_found(&source) => Ok(false),
        Err(source) => Err(from_lapin(&source, operation)),
    }
}

impl Management {
    /// The queues that an exchange routes `key` to, directly or through other exchanges.
    pub(crate) async fn queues_behind(
        &self,
        exchange: &str,
        key: &str,
        operation: &'static str,
    ) -> Result<BTreeSet<String>, TransportError> {
        let (mut queues, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut ahead = vec![exchange.to_owned()];
        while let Some(next) = ahead.pop() {
            if next.is_empty() {
                queues.insert(key.to_owned()); // the default exchange
                continue;
            }
            if seen.len() >= FOLLOW_LIMIT || !seen.insert(next.clone()) {
                continue;
            }
            let Some(described) = self.exchange(&next, operation).await? else { continue };
            let kind = described["type"].as_str().unwrap_or_default();
            let bindings = self.bindings_from(&next, operation).await?;
            for target in binding_routes::targets(kind, &bindings, key) {
                match target {
                    BindingTarget::Queue(name) => drop(queues.insert(name)),
                    BindingTarget::Exchange(name) => ahead.push(name),
                }
            }
        }
        Ok(queues)
    }
}

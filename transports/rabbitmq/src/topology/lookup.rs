//! Looks up exchanges, queues and where a routing key leads, and changes nothing.

use std::collections::BTreeSet;

use bezoar_core::TransportError;
use lapin::{
    ExchangeKind,
    options::{BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use crate::{
    check::binding_routes::BindingTarget,
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

    /// How the broker refuses a consumer of `queue` whose priority is not a number: as forbidden if the user may not read
    /// the queue, otherwise as invalid. Nothing is consumed. `None` if another AMQP broker accepts it.
    pub(crate) async fn refused_consumer(
        &self,
        queue: &str,
        operation: &'static str,
    ) -> Result<Option<lapin::Error>, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::LongString("none".into()));
        let consuming = async {
            let limit = channel.basic_qos(1, BasicQosOptions::default());
            let options = BasicConsumeOptions::default();
            let consume = channel.basic_consume(queue.into(), "".into(), options, arguments);
            tokio::try_join!(limit, consume)
        };
        let answer = self.requests.with_timeout(consuming, operation).await?;
        if answer.is_ok() {
            let close = channel.close(200, "asked".into());
            let _ = self.requests.with_timeout(close, operation).await;
        }
        Ok(answer.err())
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
            for target in bindings.targets(kind, key) {
                match target {
                    BindingTarget::Queue(name) => drop(queues.insert(name)),
                    BindingTarget::Exchange(name) => ahead.push(name),
                }
            }
        }
        Ok(queues)
    }
}

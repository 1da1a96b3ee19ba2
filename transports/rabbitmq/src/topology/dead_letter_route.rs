//! The names on the route of a dead letter: exchange, routing key and queue.

use bezoar_core::{Invalid, QueueName};

use super::{UNROUTABLE, with_suffix};
use crate::Options;

/// The dead-letter exchange by default. The routing key is then the name of the work queue.
pub(crate) const DEFAULT_EXCHANGE: &str = "bezoar.dead";
/// By default a dead-letter queue has the name of its work queue and this suffix.
const SUFFIX: &str = ".dead";

/// Names that replace the default ones on the route of a queue's dead letters, for a topology that exists already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterNames {
    /// The dead-letter exchange; `bezoar.dead` by default. An empty text is the default exchange.
    pub exchange: Option<String>,
    /// The routing key; by default the name of the work queue. With the default exchange it is always the name of the
    /// dead-letter queue.
    pub key: Option<String>,
    /// The dead-letter queue; by default the name of the work queue with `.dead`.
    pub queue: Option<String>,
}

/// The route of a queue's dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadLetterRoute {
    pub(crate) exchange: String,
    pub(crate) key: String,
    pub(crate) queue: String,
}

impl DeadLetterRoute {
    /// The route of the dead letters of `queue`.
    pub(crate) fn of(queue: &QueueName, options: &Options) -> Result<Self, Invalid> {
        let names = options.dead_letter_names.get(queue).cloned().unwrap_or_default();
        let dead = match names.queue {
            Some(dead) => dead,
            None if queue.as_str() == UNROUTABLE => UNROUTABLE.to_owned(),
            None => with_suffix(queue, SUFFIX)?,
        };
        let exchange = names.exchange.unwrap_or_else(|| DEFAULT_EXCHANGE.to_owned());
        let key = match exchange.as_str() {
            "" => dead.clone(),
            _ => names.key.unwrap_or_else(|| queue.as_str().to_owned()),
        };
        let route = Self { exchange, key, queue: dead };
        for (what, name) in [
            ("dead_letter_exchange", &route.exchange),
            ("dead_letter_key", &route.key),
            ("dead_letter_queue", &route.queue),
        ] {
            if name.len() > 255 {
                return Err(Invalid::new(what, "is longer than 255 bytes"));
            }
        }
        Ok(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(names: DeadLetterNames) -> [String; 3] {
        let queue = QueueName::new("orders").unwrap();
        let mut options = Options::from_url("amqp://localhost").unwrap();
        options.dead_letter_names.insert(queue.clone(), names);
        let DeadLetterRoute { exchange, key, queue } =
            DeadLetterRoute::of(&queue, &options).unwrap();
        [exchange, key, queue]
    }

    #[test]
    fn each_name_has_a_default_of_its_own() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(route(DeadLetterNames::default()), ["bezoar.dead", "orders", "orders.dead"]);
        let own = DeadLetterNames {
            exchange: text("orders.dlx"),
            key: text("failed"),
            queue: text("orders.dlq"),
        };
        assert_eq!(route(own), ["orders.dlx", "failed", "orders.dlq"]);
        let direct = DeadLetterNames { exchange: text(""), queue: text("orders_error"), key: None };
        assert_eq!(route(direct), ["", "orders_error", "orders_error"]);
    }
}

//! RabbitMQ: its options from the configuration.

mod config;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use bezoar::{
    Finding, QueueAdmin, QueueName, TransportError,
    rabbitmq::{
        DeadLetterNames, DeadLettering, Options, Pem, QueueType, RabbitTransport, ReturnQueues,
        UNROUTABLE,
    },
};

pub(super) use config::KIND;
pub use config::{QueueKind, RabbitMqConfig, ReturnQueueMode};

use super::{BrokerFindings, BrokerTransport, PlanForm};
use crate::config::{BrokerName, Config, DeadLetterMode, Name};

fn open(config: &RabbitMqConfig, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
    let routes = all.routes.iter().filter(|route| {
        all.broker(&route.from).is_some_and(|(transport, _)| transport.name == *name)
    });
    let options = Options {
        management_url: config.management_url.clone().map(Into::into),
        management_ca: config.management_ca.clone().map(Pem::File),
        tls_ca: config.tls_ca.clone().map(Pem::File),
        tls_certificate: config.tls_certificate.clone().map(Pem::File),
        tls_key: config.tls_key.clone().map(Pem::File),
        handler_timeout: routes.map(|route| route.timeout).max(),
        queue_type: match config.queue_type {
            QueueKind::Quorum => QueueType::Quorum,
            QueueKind::Classic => QueueType::Classic,
        },
        max_message_bytes: usize::try_from(all.server.max_body_bytes)?,
        dead_letter_names: dead_letter_names(name, all),
        max_delay: config.max_delay,
        return_queues: match config.return_queues {
            ReturnQueueMode::Auto => ReturnQueues::Auto,
            ReturnQueueMode::Always => ReturnQueues::Always,
        },
        consumer_timeout: config.consumer_timeout,
        max_prefetch_bytes: usize::try_from(config.max_prefetch_bytes)?,
        ..Options::from_url(config.url.reveal())
            .with_context(|| format!("transports.{name}.url"))?
    };
    let transport =
        RabbitTransport::open(options).with_context(|| format!("cannot use transports.{name}"))?;
    Ok(Arc::new(transport))
}

/// The names of dead-letter exchanges and queues that are configured, by queue of the broker.
fn dead_letter_names(broker: &Name, all: &Config) -> BTreeMap<QueueName, DeadLetterNames> {
    let text = |name: &Option<BrokerName>| name.as_ref().map(|it| it.as_str().to_owned());
    let of_broker = all.queues.iter().filter_map(|queue| {
        let (transport, there) = all.broker(&queue.name)?;
        let names = DeadLetterNames {
            exchange: text(&queue.dead_letter_exchange),
            key: text(&queue.dead_letter_key),
            queue: text(&queue.dead_letter_queue),
        };
        (transport.name == *broker && names != DeadLetterNames::default()).then_some((there, names))
    });
    of_broker.collect()
}

#[async_trait]
impl BrokerTransport for RabbitTransport {
    fn dead_lettering(&self, mode: DeadLetterMode) -> Arc<dyn BrokerTransport> {
        Arc::new(self.dead_lettering(match mode {
            DeadLetterMode::Publish => DeadLettering::Publish,
            DeadLetterMode::Reject => DeadLettering::Reject,
        }))
    }

    async fn repair(&self, queue: &QueueName) -> Result<(), TransportError> {
        self.repair(queue).await
    }

    async fn has_nothing_of(&self, queue: &QueueName) -> Result<bool, TransportError> {
        self.has_nothing_of(queue).await
    }

    fn plan(&self, queues: &[QueueName], form: PlanForm) -> Result<String, TransportError> {
        let (vhost, topology) = self.plan(queues)?;
        Ok(match form {
            PlanForm::Commands => {
                let options = "# add --host, --port, --username and --password as needed";
                format!("{options}\n{}", topology.commands(&vhost))
            }
            PlanForm::Definitions => format!("{:#}\n", topology.definitions(&vhost)),
            PlanForm::Policies => format!("{:#}\n", topology.policies(&vhost)),
        })
    }

    async fn validate_all(&self, queues: &[QueueName]) -> Result<BrokerFindings, TransportError> {
        let found = self.validate_all(queues).await?;
        Ok(BrokerFindings { shared: found.shared, queues: found.queues })
    }

    async fn validate_dead_letters(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        self.dead_letter_feed(queue).await.map(|_| Vec::new())
    }

    fn dead_letter_collectors(&self) -> Vec<QueueName> {
        vec![QueueName::new(UNROUTABLE).expect("it is a valid name")]
    }
}

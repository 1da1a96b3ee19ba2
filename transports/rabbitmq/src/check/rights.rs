//! Which permissions our user lacks.
//!
//! AMQP has no request that shows permissions, and the management API shows them only to administrators. So we ask for something that
//! the broker refuses for another reason if the permission is there: it checks permissions first. Nothing is consumed or
//! published. The broker logs each refusal.

use std::{collections::BTreeSet, time::Duration};

use bezoar_core::{Finding, QueueName, Severity, TransportError};
use futures_util::future::join_all;
use lapin::{
    BasicProperties, Channel,
    options::{BasicPublishOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::time::timeout;

use crate::{
    DeadLettering, RabbitTransport,
    check::{VALIDATE, findings::finding},
    connection::broker_connection::BrokerConnection,
    error::is_access_refused,
    topology::{
        self, Exchange, Topology, UNROUTABLE,
        dead_letter_route::DeadLetterRoute,
        return_route::{ReturnRoute, return_queue_name},
    },
};

/// No number: a message with this expiration is refused.
const INVALID_EXPIRATION: &str = "never";
/// A routing key without a binding.
const NO_BINDING: &str = "bezoar.delay.nowhere";
/// After this long without an answer, an alarm is assumed to block publishers; it is a finding of its own.
const ALARM_AFTER: Duration = Duration::from_secs(2);

/// The exchanges that our user may not publish to. The default exchange is the empty string.
pub(crate) struct WriteRights {
    lacking: BTreeSet<String>,
}

impl RabbitTransport {
    /// The permissions that consuming from `queue` and settling its messages need.
    pub(crate) async fn check_rights(
        &self,
        queue: &QueueName,
        back: ReturnRoute,
        exchanges: &WriteRights,
    ) -> Result<Vec<Finding>, TransportError> {
        let mut findings = Vec::new();
        let mut reads = vec![queue.as_str().to_owned()];
        reads.extend(topology::quarantine_queue(queue));
        for name in reads {
            if self.lacks_read(&name).await? {
                findings.push(self.lacks("read", &format!("queue {name:?}"), &name));
            }
        }
        findings.extend(self.check_binding(queue.as_str()).await?);
        if back == ReturnRoute::ThroughQueue
            && let Ok(name) = return_queue_name(queue)
        {
            findings.extend(self.check_binding(&name).await?);
        }
        findings.extend(self.check_dead_letter_queue(queue).await?);
        if exchanges.lacking.contains("") {
            findings.push(self.lacks("write", "the default exchange", "amq.default"));
        }
        if let Some(exchange) = self.published_to(queue).filter(|it| !it.is_empty())
            && exchanges.lacking.contains(&exchange)
        {
            findings.push(self.lacks("write", &format!("exchange {exchange:?}"), &exchange));
        }
        Ok(findings)
    }

    /// Which exchanges the consumers of `queues` may not publish to. Checked once for all of them, on one connection.
    pub(crate) async fn write_rights(
        &self,
        queues: &[QueueName],
    ) -> Result<WriteRights, TransportError> {
        let mut exchanges: BTreeSet<_> =
            queues.iter().filter_map(|queue| self.published_to(queue)).collect();
        exchanges.insert(String::new());
        let link = BrokerConnection::new(self.inner.options.clone(), "checking permissions");
        let mut lacking = BTreeSet::new();
        for exchange in exchanges {
            if lacks_write(&link, &exchange).await? {
                lacking.insert(exchange);
            }
        }
        link.close().await;
        Ok(WriteRights { lacking })
    }

    /// The exchange that consumers of `queue` publish dead letters to, if they do.
    fn published_to(&self, queue: &QueueName) -> Option<String> {
        let options = &self.inner.options;
        let route = DeadLetterRoute::of(queue, options).ok()?;
        (options.dead_lettering == DeadLettering::Publish).then_some(route.exchange)
    }

    async fn lacks_read(&self, queue: &str) -> Result<bool, TransportError> {
        let refused = self.inner.refused_consumer(queue, VALIDATE).await?;
        Ok(refused.is_some_and(|source| is_access_refused(&source)))
    }

    /// The permissions to bind `queue` to the delay exchanges: retries do, to make sure that they come back. Asks to
    /// remove a binding that does not exist, which needs the same permissions and does nothing.
    async fn check_binding(&self, queue: &str) -> Result<Option<Finding>, TransportError> {
        let requests = &self.inner.requests;
        let channel = requests.request_channel(VALIDATE).await?;
        let exchanges = Topology::of_delays(&self.inner.options).exchanges;
        let exchanges: Vec<_> = exchanges.iter().filter(|it| it.name != UNROUTABLE).collect();
        let unbind = |exchange: &&Exchange| {
            let (queue, exchange) = (queue.into(), exchange.name.as_str().into());
            channel.queue_unbind(queue, exchange, NO_BINDING.into(), FieldTable::default())
        };
        let unbound = join_all(exchanges.iter().map(unbind));
        let unbound = requests.with_timeout(unbound, VALIDATE).await?;
        requests.reuse(channel);
        // After a refusal all later requests fail with the same error.
        let mut refused =
            exchanges.iter().zip(unbound).filter_map(|(it, done)| Some((it, done.err()?)));
        Ok(match refused.next() {
            Some((exchange, source)) if is_access_refused(&source) => {
                let name = exchange.name.as_str();
                Some(match source.to_string().contains("exchange '") {
                    true => self.lacks("read", &format!("exchange {name:?}"), name),
                    false => self.lacks("write", &format!("queue {queue:?}"), queue),
                })
            }
            _ => None,
        })
    }

    /// The permission to take in dead letters, or to replay and discard them on the broker. Not everybody needs it.
    async fn check_dead_letter_queue(
        &self,
        queue: &QueueName,
    ) -> Result<Option<Finding>, TransportError> {
        let Ok(DeadLetterRoute { queue: dead, .. }) =
            DeadLetterRoute::of(queue, &self.inner.options)
        else {
            return Ok(None);
        };
        let lacks = self.lacks_read(&dead).await?.then(|| {
            let Finding { problem, remedy, .. } =
                self.lacks("read", &format!("queue {dead:?}"), &dead);
            let problem = format!("{problem}: its dead letters can only be counted");
            finding(Severity::Warning, problem, remedy)
        });
        Ok(lacks)
    }

    fn lacks(&self, permission: &str, what: &str, name: &str) -> Finding {
        let (user, vhost) = (&self.inner.user, &self.inner.vhost);
        let problem = format!("user {user:?} lacks the permission to {permission} {what}");
        let remedy = format!(
            "ask the administrator to add {name:?} to the {permission} permission of user {user:?} in virtual host {vhost:?}"
        );
        finding(Severity::Error, problem, remedy)
    }
}

/// On a connection of its own: during an alarm the broker answers nothing on it, and the permission stays unknown.
async fn lacks_write(link: &BrokerConnection, exchange: &str) -> Result<bool, TransportError> {
    if link.connection(VALIDATE).await?.status().blocked() {
        return Ok(false);
    }
    let channel = link.channel(VALIDATE).await?;
    let refused = timeout(ALARM_AFTER, try_to_write(&channel, exchange)).await;
    Ok(refused.is_ok_and(|refused| refused.is_err_and(|source| is_access_refused(&source))))
}

/// The second request reports what became of the first, which has no answer.
async fn try_to_write(channel: &Channel, exchange: &str) -> lapin::Result<()> {
    let properties = BasicProperties::default().with_expiration(INVALID_EXPIRATION.into());
    let options = BasicPublishOptions::default();
    channel.basic_publish(exchange.into(), "".into(), options, &[], properties).await?;
    channel.basic_qos(1, BasicQosOptions::default()).await
}

//! Checks by AMQP alone: whether an exchange or a queue exists, and whether it could be declared.

use bezoar_core::{ErrorKind, Finding, TransportError};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};

use crate::{
    RabbitTransport,
    check::VALIDATE,
    check::findings::{self, missing},
    check::inspection::not_checked,
    error::{from_lapin, is_not_found},
    topology::provision::{declare_exchange, declare_queue},
    topology::{Exchange, Queue},
};

impl RabbitTransport {
    pub(crate) async fn check_exchange(
        &self,
        exchange: &Exchange,
    ) -> Result<Option<Finding>, TransportError> {
        let name = exchange.name.as_str();
        let channel = self.inner.requests.request_channel(VALIDATE).await?;
        let checking = async {
            let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
            let none = FieldTable::default();
            channel.exchange_declare(name.into(), ExchangeKind::Direct, passive, none).await?;
            declare_exchange(&channel, exchange).await
        };
        let found = self.inner.requests.with_timeout(checking, VALIDATE).await?;
        self.inner.requests.reuse(channel);
        finding_from(found, "exchange", name)
    }

    /// Checks that the queue exists, and then declares it again: that changes nothing, and the broker names an argument
    /// that differs.
    pub(crate) async fn check_queue(
        &self,
        queue: &Queue,
    ) -> Result<Option<Finding>, TransportError> {
        let channel = self.inner.requests.request_channel(VALIDATE).await?;
        let checking = async {
            let passive = QueueDeclareOptions { passive: true, ..Default::default() };
            let none = FieldTable::default();
            channel.queue_declare(queue.name.as_str().into(), passive, none).await?;
            declare_queue(&channel, queue).await
        };
        let found = self.inner.requests.with_timeout(checking, VALIDATE).await?;
        self.inner.requests.reuse(channel);
        finding_from(found, "queue", &queue.name)
    }
}

/// The finding, if the broker refused; other problems are errors.
fn finding_from(
    found: lapin::Result<()>,
    what: &'static str,
    name: &str,
) -> Result<Option<Finding>, TransportError> {
    let Err(source) = found else { return Ok(None) };
    if is_not_found(&source) {
        return Ok(Some(missing(what, name)));
    }
    let failed = from_lapin(&source, VALIDATE);
    match failed.kind {
        ErrorKind::Unusable => {
            let text = source.to_string();
            let (argument, there, wanted) = findings::read_refusal(&text)
                .unwrap_or_else(|| ("an argument".to_owned(), text, "another value".to_owned()));
            let difference = (argument.as_str(), there.as_str(), wanted.as_str());
            Ok(Some(findings::argument_difference(what, name, difference)))
        }
        ErrorKind::NotAuthorized => {
            let what = format!("the arguments of {what} {name:?}");
            Ok(Some(not_checked(&what, "give the user the permission to configure it")))
        }
        _ => Err(failed),
    }
}

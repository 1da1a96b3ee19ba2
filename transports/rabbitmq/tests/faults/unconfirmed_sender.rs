//! A broken sender: the negative control of all fault tests.

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Destination, Outgoing, QueueName, SubscribeOptions, Subscription,
    Transport, TransportError,
};
use bezoar_rabbitmq::RabbitTransport;

/// Reports a message as accepted before the broker has confirmed it.
#[derive(Debug)]
pub(crate) struct UnconfirmedSender(pub(crate) RabbitTransport);

#[async_trait]
impl Transport for UnconfirmedSender {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        let (transport, to, batch) = (self.0.clone(), to.clone(), batch.to_vec());
        let count = batch.len();
        tokio::spawn(async move { transport.send(&to, &batch).await });
        (0..count).map(|_| Ok(Acceptance::New)).collect()
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        self.0.subscribe(queue, options).await
    }
}

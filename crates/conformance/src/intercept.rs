//! A transport around another, for tests that change one of its operations.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Capabilities, Delivery, Destination, Outgoing, QueueName, Settlement,
    SubscribeOptions, Subscription, Transport, TransportError,
};

/// Overrides operations of a transport in a test. By default each one calls the inner transport.
#[async_trait]
pub trait Intercept: Clone + Debug + Send + Sync + 'static {
    /// The transport that does the work.
    fn inner(&self) -> &dyn Transport;

    /// The capabilities that it declares.
    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }

    /// Called before a queue is opened.
    async fn opening(&self) -> Result<(), TransportError> {
        Ok(())
    }

    /// Receives from an open queue.
    async fn receive(
        &self,
        inner: &dyn Subscription,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        inner.receive(max, wait).await
    }

    /// Settles deliveries of an open queue.
    async fn settle(
        &self,
        inner: &dyn Subscription,
        batch: Vec<(Delivery, Settlement)>,
    ) -> Vec<Result<(), TransportError>> {
        inner.settle(batch).await
    }

    /// Renews leases of an open queue.
    async fn extend(
        &self,
        inner: &dyn Subscription,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        inner.extend(deliveries, lease).await
    }

    /// Called before a queue is closed.
    fn closing(&self) {}
}

/// A transport with the overrides of an [`Intercept`].
#[derive(Debug, Clone)]
pub struct Intercepted<T>(pub T);

#[async_trait]
impl<T: Intercept> Transport for Intercepted<T> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn send(
        &self,
        to: &Destination,
        batch: &[Outgoing],
    ) -> Vec<Result<Acceptance, TransportError>> {
        self.0.inner().send(to, batch).await
    }

    async fn subscribe(
        &self,
        queue: &QueueName,
        options: SubscribeOptions,
    ) -> Result<Box<dyn Subscription>, TransportError> {
        self.0.opening().await?;
        let inner = self.0.inner().subscribe(queue, options).await?;
        Ok(Box::new(InterceptedSubscription { intercept: self.0.clone(), inner }))
    }
}

#[derive(Debug)]
struct InterceptedSubscription<T> {
    intercept: T,
    inner: Box<dyn Subscription>,
}

#[async_trait]
impl<T: Intercept> Subscription for InterceptedSubscription<T> {
    async fn receive(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        self.intercept.receive(&*self.inner, max, wait).await
    }

    async fn settle(&self, batch: Vec<(Delivery, Settlement)>) -> Vec<Result<(), TransportError>> {
        self.intercept.settle(&*self.inner, batch).await
    }

    async fn extend(
        &self,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Vec<Result<(), TransportError>> {
        self.intercept.extend(&*self.inner, deliveries, lease).await
    }

    async fn close(self: Box<Self>) -> Result<(), TransportError> {
        self.intercept.closing();
        self.inner.close().await
    }
}

//! What an operator creates: a queue, its poison queue, and the container of the claim check.

use bezoar_core::{QueueName, TransportError};

use crate::AzureTransport;

/// What a queue needs in the storage account.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeededNames {
    /// The queue itself and its poison queue.
    pub queues: [QueueName; 2],
    /// The blob container, with the claim check.
    pub container: Option<String>,
}

impl AzureTransport {
    /// What a queue needs. Asks nobody.
    ///
    /// # Errors
    ///
    /// If Azure does not accept one of the names.
    pub fn needed_names(&self, queue: &QueueName) -> Result<NeededNames, TransportError> {
        let main = self.inner.queue(queue, "plan")?;
        let poison = self.inner.poison_queue(queue, "plan")?;
        let container = self.inner.options.claim_check.as_ref().map(|it| it.container.clone());
        Ok(NeededNames { queues: [main.name, poison.name], container })
    }

    /// Whether missing queues are created when they are used.
    pub fn creates_missing(&self) -> bool {
        self.inner.options.create_if_missing
    }

    /// Creates what is missing for a queue, even if [`create_if_missing`](crate::Options::create_if_missing) is off.
    ///
    /// # Errors
    ///
    /// The first error of Azure. What was created before stays.
    pub async fn create_missing(&self, queue: &QueueName) -> Result<(), TransportError> {
        let poison = self.inner.poison_queue(queue, "provision")?;
        for queue in [self.inner.queue(queue, "provision")?, poison] {
            let created = queue.create().await;
            created.map_err(|fault| fault.repeatable(&queue.name, "provision"))?;
        }
        if let (Some(bodies), Some(_)) =
            (&self.inner.service.bodies, &self.inner.options.claim_check)
        {
            let created = bodies.own_container().create().await;
            created.map_err(|fault| fault.repeatable(queue, "provision"))?;
        }
        Ok(())
    }
}

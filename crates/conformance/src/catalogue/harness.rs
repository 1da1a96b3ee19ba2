//! What a store with a catalogue provides to be tested.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{QueueAdmin, Transport, catalogue::Catalogue};
use jiff::Timestamp;

/// A fresh store that shares nothing with other cases, with a clock that the cases control.
#[async_trait]
pub trait CatalogueHarness: Send + Sync {
    /// The catalogue. All calls return the same dead letters, also after
    /// [`restart`](Self::restart).
    fn catalogue(&self) -> Arc<dyn Catalogue>;

    /// The queues of the same store.
    fn transport(&self) -> Arc<dyn Transport>;

    /// The administration of those queues.
    fn admin(&self) -> Arc<dyn QueueAdmin>;

    /// The time on the store's clock.
    fn now(&self) -> Timestamp;

    /// Advances the store's clock.
    async fn elapse(&self, by: Duration);

    /// Ends the store as a crash of its process would, and opens it again with the data that it
    /// stored.
    async fn restart(&mut self);

    /// Opens the store again with a limit on its size that it has already reached.
    async fn restart_full(&mut self);

    /// How long one case may take, in real time.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }
}

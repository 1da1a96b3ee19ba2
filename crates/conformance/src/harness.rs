//! What a transport provides to be tested.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{QueueAdmin, Transport};

/// A fresh transport that shares nothing with other cases, and control over its time.
///
/// A store that takes a clock uses a `ManualClock` and advances it; for a broker, time really
/// passes.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The transport. All calls return the same queues, until [`restart`](Self::restart).
    fn transport(&self) -> Arc<dyn Transport>;

    /// The administration of the same queues.
    fn admin(&self) -> Arc<dyn QueueAdmin>;

    /// Lets time pass.
    async fn elapse(&self, by: Duration);

    /// Ends the transport as a crash of the process would, and opens it again with the data that it
    /// stored. Called only where the capabilities say that messages are durable.
    async fn restart(&mut self) {
        panic!("a durable transport's harness must be able to restart it");
    }

    /// The smallest delay worth testing; all delays and leases of the cases are multiples of it. About
    /// 200 ms where time really passes. The transport must accept leases of 1 to 100 ticks, where leases expire,
    /// and delays of 100 ticks, where there are delays.
    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How long one case may take, in real time.
    fn deadline(&self) -> Duration {
        Duration::from_secs(10)
    }
}

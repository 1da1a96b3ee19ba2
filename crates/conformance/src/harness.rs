//! What a transport brings along to be tested.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_core::{QueueAdmin, Transport};

/// A fresh transport that shares nothing with that of another case, and a hold on its time.
///
/// A store with a clock of ours gives a `ManualClock` and moves it; a broker really waits.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The transport. All calls give the same queues, until [`restart`](Self::restart).
    fn transport(&self) -> Arc<dyn Transport>;

    /// The operator's side of the same queues.
    fn admin(&self) -> Arc<dyn QueueAdmin>;

    /// Lets time pass.
    async fn elapse(&self, by: Duration);

    /// Ends the transport as a crash of the process would, and opens it again on what it stored. Called
    /// only where the capabilities say that messages are durable.
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

//! The conformance suite for queues in memory.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::Harness;
use bezoar_core::{ManualClock, QueueAdmin, Transport};
use bezoar_memory::{MemoryTransport, Options};

struct MemoryHarness {
    transport: MemoryTransport,
    clock: Arc<ManualClock>,
}

impl MemoryHarness {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let options =
            Options { clock: clock.clone(), max_message_bytes: 256 * 1024, ..Options::default() };
        Self { transport: MemoryTransport::new(options), clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.transport.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

bezoar_conformance::suite!(MemoryHarness::new);

#[test]
fn the_readme_says_what_the_transport_can_do() {
    let transport = MemoryTransport::default();
    bezoar_conformance::assert_documented(include_str!("../README.md"), &transport.capabilities());
}

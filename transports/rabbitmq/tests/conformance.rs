//! The conformance suite for queues on a RabbitMQ broker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{env, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::Harness;
use bezoar_core::{QueueAdmin, Transport};
use bezoar_rabbitmq::{Options, QueueType, RabbitTransport};

struct RabbitHarness {
    transport: RabbitTransport,
    queue_type: QueueType,
}

impl RabbitHarness {
    async fn quorum() -> Self {
        Self { transport: open(QueueType::Quorum), queue_type: QueueType::Quorum }
    }

    async fn classic() -> Self {
        Self { transport: open(QueueType::Classic), queue_type: QueueType::Classic }
    }
}

fn open(queue_type: QueueType) -> RabbitTransport {
    let url = env::var("BEZOAR_TEST_AMQP").unwrap();
    let options = Options {
        management_url: env::var("BEZOAR_TEST_AMQP_MANAGEMENT").ok().map(Into::into),
        queue_type,
        // Larger than a frame, so that bodies are sent in several.
        max_message_bytes: 300_000,
        idle: Duration::from_millis(50),
        ..Options::from_url(&url).unwrap()
    };
    RabbitTransport::open(options).unwrap()
}

#[async_trait]
impl Harness for RabbitHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.transport.clone())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.transport.clone())
    }

    async fn elapse(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    async fn restart(&mut self) {
        self.transport.close().await;
        self.transport = open(self.queue_type);
    }

    /// More than three times the lag, because a case may wait for the lag three times before the next tick, to see
    /// that nothing arrives.
    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

mod quorum {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
        RabbitHarness::quorum
    );
}

mod classic {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
        RabbitHarness::classic
    );
}

#[test]
fn the_readme_says_what_the_transport_can_do() {
    let options = Options::from_url("amqp://localhost").unwrap();
    let transport = RabbitTransport::open(options).unwrap();
    bezoar_conformance::assert_documented(include_str!("../README.md"), &transport.capabilities());
}

//! The conformance suite for queues of a storage account.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_azure::{Account, AzureTransport, ClaimCheck, Options};
use bezoar_conformance::Harness;
use bezoar_core::{QueueAdmin, Transport};
use test_support::azurite::Azurite;

struct AzureHarness {
    transport: AzureTransport,
    claim_check: Option<ClaimCheck>,
}

impl AzureHarness {
    async fn new() -> Self {
        Self { transport: open(None), claim_check: None }
    }

    async fn with_claim_check() -> Self {
        let claim_check = Some(ClaimCheck { max_bytes: 300_000, ..ClaimCheck::default() });
        Self { transport: open(claim_check.clone()), claim_check }
    }
}

fn open(claim_check: Option<ClaimCheck>) -> AzureTransport {
    let account: Account = Azurite::shared().connection_string().parse().unwrap();
    let mut options = Options { claim_check, ..Options::new(account) };
    options.limits.first_poll = Duration::from_millis(50);
    AzureTransport::open(options).unwrap()
}

#[async_trait]
impl Harness for AzureHarness {
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
        self.transport = open(self.claim_check.clone());
    }

    /// Azure counts delays and leases in whole seconds.
    fn tick(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

mod plain {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
        AzureHarness::new
    );
}

mod claim_check {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
        AzureHarness::with_claim_check
    );
}

#[test]
fn the_readme_says_what_the_transport_can_do() {
    let options = Options::new("UseDevelopmentStorage=true".parse().unwrap());
    let transport = AzureTransport::open(options).unwrap();
    bezoar_conformance::assert_documented(include_str!("../README.md"), &transport.capabilities());
}

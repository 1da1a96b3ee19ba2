//! The conformance suite for queues in PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_conformance::Harness;
use bezoar_core::{QueueAdmin, Transport};
use bezoar_postgres::{Options, PostgresTransport};

/// Numbers the schemas of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A schema of its own on the shared server.
struct PostgresHarness {
    transport: PostgresTransport,
    options: Options,
}

impl PostgresHarness {
    async fn direct() -> Self {
        Self::open(Options::from_url(&env::var("BEZOAR_TEST_POSTGRES").unwrap()).unwrap())
    }

    /// Through PgBouncer in transaction mode.
    async fn pooled() -> Self {
        let url = env::var("BEZOAR_TEST_PGBOUNCER").unwrap();
        let options = Options::from_url(&url).unwrap();
        Self::open(Options { transaction_pooling: true, ..options })
    }

    fn open(options: Options) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let options = Options {
            // A name that needs quoting.
            schema: format!("It's \"{}\" {number}", std::process::id()),
            max_connections: 4,
            poll: Duration::from_millis(200),
            ..options
        };
        Self { transport: PostgresTransport::open(options.clone()).unwrap(), options }
    }
}

#[async_trait]
impl Harness for PostgresHarness {
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
        self.transport = PostgresTransport::open(self.options.clone()).unwrap();
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(1_000)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

mod direct {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs a server in BEZOAR_TEST_POSTGRES; `cargo xtask test` starts one"]
        PostgresHarness::direct
    );
}

mod pooled {
    use super::*;

    bezoar_conformance::suite!(
        #[ignore = "needs PgBouncer in BEZOAR_TEST_PGBOUNCER; `cargo xtask test` starts one"]
        PostgresHarness::pooled
    );
}

#[tokio::test]
async fn the_readme_says_what_the_transport_can_do() {
    let options = Options::from_url("postgres://localhost/lab").unwrap();
    let transport = PostgresTransport::open(options).unwrap();
    bezoar_conformance::assert_documented(include_str!("../README.md"), &transport.capabilities());
}

//! The conformance suite for the catalogue in PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_conformance::CatalogueHarness;
use bezoar_core::{QueueAdmin, Transport, catalogue::Catalogue, millis};
use bezoar_postgres::{Options, PostgresTransport};
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Numbers the schemas of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A schema of its own on the shared server. Its clock stands still unless a case moves it.
struct PostgresCatalogue {
    store: PostgresTransport,
    options: Options,
    now: AtomicI64,
}

impl PostgresCatalogue {
    async fn direct() -> Self {
        let options = Options::from_url(&server()).unwrap();
        Self::open(options).await
    }

    /// Through PgBouncer in transaction mode.
    async fn pooled() -> Self {
        let url = env::var("BEZOAR_TEST_PGBOUNCER").unwrap();
        let options = Options::from_url(&url).unwrap();
        Self::open(Options { transaction_pooling: true, ..options }).await
    }

    async fn open(options: Options) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let options = Options {
            // A name that needs quoting.
            schema: format!("Its \"{}\" {number}", std::process::id()),
            max_connections: 4,
            poll: Duration::from_millis(200),
            ..options
        };
        let store = PostgresTransport::open(options.clone()).unwrap();
        store.queues().await.unwrap(); // creates the schema
        let harness = Self { store, options, now: AtomicI64::new(0) };
        harness.set_clock(0).await;
        harness
    }

    /// Replaces the function by which the catalogue reads the time.
    async fn set_clock(&self, now: i64) {
        let schema = self.options.schema.replace('"', "\"\"");
        let sql = format!(
            "CREATE OR REPLACE FUNCTION \"{schema}\".now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT {now}::bigint'"
        );
        let mut connection = PgConnection::connect(&server()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        self.now.store(now, Ordering::SeqCst);
    }

    async fn reopen(&mut self, max_dead_letter_bytes: Option<u64>) {
        self.store.close().await;
        let options = Options { max_dead_letter_bytes, ..self.options.clone() };
        self.store = PostgresTransport::open(options).unwrap();
    }
}

fn server() -> String {
    env::var("BEZOAR_TEST_POSTGRES").unwrap()
}

#[async_trait]
impl CatalogueHarness for PostgresCatalogue {
    fn catalogue(&self) -> Arc<dyn Catalogue> {
        Arc::new(self.store.clone())
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(self.store.clone())
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.store.clone())
    }

    fn now(&self) -> Timestamp {
        millis(self.now.load(Ordering::SeqCst))
    }

    async fn elapse(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.set_clock(self.now.load(Ordering::SeqCst) + by).await;
    }

    async fn restart(&mut self) {
        self.reopen(None).await;
    }

    async fn restart_full(&mut self) {
        self.reopen(Some(1)).await;
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(120)
    }
}

mod direct {
    use super::*;

    bezoar_conformance::catalogue_suite!(
        #[ignore = "needs a server in BEZOAR_TEST_POSTGRES; `cargo xtask test` starts one"]
        PostgresCatalogue::direct
    );
}

mod pooled {
    use super::*;

    bezoar_conformance::catalogue_suite!(
        #[ignore = "needs PgBouncer in BEZOAR_TEST_PGBOUNCER; `cargo xtask test` starts one"]
        PostgresCatalogue::pooled
    );
}

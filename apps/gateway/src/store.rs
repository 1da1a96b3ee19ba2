//! The store: an SQLite file of this gateway alone, or a PostgreSQL database that several gateways share.
//!
//! Nothing else in the gateway knows which of the two it is. What only one of several gateways may do runs under
//! [`Leadership`], and changes the store through [`Store::of_leader`].

mod leadership;

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use bezoar::{
    Bezoar,
    catalogue::Catalogue,
    postgres::{PostgresTransport, SchemaState},
    sqlite::{self, SqliteTransport},
};

pub(crate) use leadership::Leadership;

use crate::{
    app::WriteHealth,
    config::{Config, PostgresStoreConfig, SqliteConfig, StorePlace},
    route::describe,
    telemetry::Metrics,
};

/// The role that one of the gateways on a database has.
const ROLE: &str = "gateway";

/// An open store.
#[derive(Debug)]
pub(crate) struct Store {
    /// The queues.
    pub(crate) bezoar: Bezoar,
    /// What operators see and change.
    pub(crate) catalogue: Arc<dyn Catalogue>,
    /// The same, except that it changes nothing unless this gateway leads.
    pub(crate) of_leader: Arc<dyn Catalogue>,
    pub(crate) leadership: Leadership,
    pub(crate) writes: WriteHealth,
    /// The file that notes the head of the audit log has this name, and an ending.
    pub(crate) anchor: PathBuf,
}

impl Store {
    /// Opens the store, creating what is missing, and shows its size in the metrics if it is a file.
    pub(crate) async fn open(config: &Config, metrics: &Metrics) -> Result<Self> {
        let folder = config.store.folder();
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        }
        let max_message_bytes = usize::try_from(config.server.max_body_bytes)?;
        match &config.store.place {
            StorePlace::Sqlite(sqlite) => open_sqlite(sqlite, max_message_bytes, metrics).await,
            StorePlace::Postgres(postgres) => open_postgres(postgres, max_message_bytes)
                .await
                .with_context(|| format!("cannot open the store {}", config.store)),
        }
    }
}

async fn open_sqlite(
    config: &SqliteConfig,
    max_message_bytes: usize,
    metrics: &Metrics,
) -> Result<Store> {
    let path = config.path().to_owned();
    let options = sqlite::Options {
        max_message_bytes,
        max_bytes: config.max_size_bytes,
        max_log_bytes: config.max_log_bytes,
        ..sqlite::Options::new(&path)
    };
    let opened = tokio::task::spawn_blocking(|| SqliteTransport::open(options)).await?;
    let store = opened.with_context(|| format!("cannot open the store {}", path.display()))?;
    let files = store.files();
    metrics.show_store(move || files.sizes());
    let catalogue: Arc<dyn Catalogue> = Arc::new(store.clone());
    Ok(Store {
        bezoar: Bezoar::new(store),
        of_leader: catalogue.clone(),
        catalogue,
        leadership: Leadership::Alone,
        writes: WriteHealth::default(),
        anchor: path,
    })
}

async fn open_postgres(config: &PostgresStoreConfig, max_message_bytes: usize) -> Result<Store> {
    let store = PostgresTransport::open(config.database.options("store", max_message_bytes)?)?;
    let state = store.examine().await.map_err(|error| anyhow::anyhow!(describe(&error)))?;
    if let SchemaState::Older(version) = state {
        tracing::warn!(version, "upgrading the schema of the store");
    }
    let leader = store.elect(ROLE);
    Ok(Store {
        bezoar: Bezoar::new(store.clone()),
        of_leader: Arc::new(leader.store()),
        catalogue: Arc::new(store),
        leadership: Leadership::Shared(leader),
        writes: WriteHealth::of_server(),
        anchor: config.folder.join(config.database.file_name()),
    })
}

/// What `bezoar check` says about a store.
///
/// # Errors
///
/// With what is wrong, and what to do about it.
pub async fn check(config: &Config) -> Result<&'static str> {
    match &config.store.place {
        StorePlace::Sqlite(sqlite) if !sqlite.path().exists() => {
            Ok("will be created at the first start")
        }
        StorePlace::Sqlite(sqlite) => {
            let options = sqlite::Options::new(sqlite.path());
            let opened = tokio::task::spawn_blocking(|| SqliteTransport::open(options)).await?;
            opened.map(|_| "ok").map_err(|error| anyhow::anyhow!(describe(&error)))
        }
        StorePlace::Postgres(postgres) => {
            let max_message_bytes = usize::try_from(config.server.max_body_bytes)?;
            let options = postgres.database.options("store", max_message_bytes)?;
            let store = PostgresTransport::open(options)?;
            let state = store.examine().await.map_err(|error| anyhow::anyhow!(describe(&error)))?;
            Ok(match state {
                SchemaState::Ready => "ok",
                SchemaState::Missing => "reachable; its schema will be created at the first start",
                SchemaState::Older(_) => "reachable; its schema will be upgraded at the next start",
            })
        }
    }
}

//! A temporary gateway with real sockets and a real store, in a folder that is removed with it.

use std::{fs::Permissions, net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf};

use anyhow::{Context as _, Result};
use bezoar_gateway::{
    Gateway,
    config::{self, Sources},
    telemetry::Metrics,
    token,
};
use tempfile::TempDir;

use crate::client::{ApiClient, Connection};

/// A gateway that ignores the user's files and environment, and leaves nothing behind.
#[derive(Debug)]
pub(crate) struct TemporaryGateway {
    gateway: Gateway,
    folder: TempDir,
}

impl TemporaryGateway {
    /// Starts one that listens on `listen`; the rest of its configuration is `toml`.
    pub(crate) async fn start(listen: SocketAddr, toml: String) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("bezoar-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("cannot create a temporary folder")?;
        let store = format!("sqlite:{}", folder.path().join("bezoar.db").display());
        let sources = Sources {
            file: Some(("sandbox.toml".into(), toml)),
            environment: Vec::new(),
            flags: vec![
                ("server.listen".to_owned(), listen.to_string()),
                ("store.url".to_owned(), store),
            ],
        };
        let config = config::load(&sources, &config::read_secret)?.config;
        let gateway = Gateway::start(config, Metrics::local()).await?;
        Ok(Self { gateway, folder })
    }

    /// The URL it listens on.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.gateway.address())
    }

    /// The file with its token.
    pub(crate) fn token_file(&self) -> PathBuf {
        self.folder.path().join(token::FILE)
    }

    /// A client for it.
    pub(crate) fn client(&self) -> Result<ApiClient> {
        let token = token::read(&self.token_file()).context("cannot read the gateway's token")?;
        Connection::new(self.url(), token.into()).client()
    }

    /// Stops it and removes its folder.
    pub(crate) async fn stop(self) -> Result<()> {
        self.gateway.stop().await;
        self.folder.close().context("cannot remove the temporary folder")
    }
}

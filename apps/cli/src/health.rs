//! `bezoar health`: whether a gateway accepts messages, for health checks.

use anyhow::Result;

use crate::client::ApiClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Succeeds silently if it does; needs no token.
pub(crate) async fn run(_: Arguments, client: &ApiClient) -> Result<()> {
    client.get("/readyz").await?;
    Ok(())
}

//! `bezoar health`: whether a gateway can take messages, for those who start and watch it.

use anyhow::Result;

use crate::client::ApiClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Succeeds if it can; needs no token and says nothing then.
pub(crate) async fn run(_: Arguments, client: &ApiClient) -> Result<()> {
    client.get("/readyz").await?;
    Ok(())
}

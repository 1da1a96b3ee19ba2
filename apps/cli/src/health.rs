//! `bezoar health`: whether a gateway accepts messages, for health checks.

use anyhow::Result;

use crate::{client::ApiClient, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Says `ok` if it does; needs no token.
pub(crate) async fn run(_: Arguments, client: &ApiClient) -> Result<()> {
    client.get("/readyz").await?;
    output::say("ok");
    Ok(())
}

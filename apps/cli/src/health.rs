//! `bezoar health`: whether a gateway accepts messages, for health checks.

use anyhow::{Result, anyhow};

use crate::{
    client::{ApiClient, ClientError},
    output,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Says what it found; needs no token.
pub(crate) async fn run(_: Arguments, client: &ApiClient) -> Result<()> {
    let url = client.url();
    client.get("/readyz").await.map_err(|error| match error {
        ClientError::Refused(problem) => anyhow!("the gateway at {url} is not ready: {problem}"),
        error => error.into(),
    })?;
    output::say(&format!("the gateway at {url} is ready and accepts messages"));
    Ok(())
}

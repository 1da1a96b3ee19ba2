//! Peers in Rust: programs of their own workspaces, because what they bring may not go with what we have.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{existing, process};
use crate::Place;

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The built program.
#[derive(Debug)]
pub struct Binary(PathBuf);

impl Binary {
    /// What runs it.
    pub fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

/// Builds the peer in `folder`, which takes two minutes the first time.
pub fn build(place: &Place, folder: &str) -> Result<Binary> {
    let manifest = place.peers().join(folder).join("Cargo.toml");
    let target = place.kept("bench-peers");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "--manifest-path"]).arg(existing(&manifest)?);
    command.arg("--target-dir").arg(&target);
    process::run(&mut command, BUILD_LIMIT, place.scratch()?.path()).context("cargo build")?;
    Ok(Binary(target.join(format!("release/peer-{folder}"))))
}

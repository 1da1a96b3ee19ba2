//! apalis-sqlite: a program of its own workspace, because two crates cannot both link sqlite3.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bench_support::Place;

use super::{existing, process};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The built program.
#[derive(Debug)]
pub(super) struct Binary(PathBuf);

impl Binary {
    pub(super) fn command(&self) -> Command {
        Command::new(&self.0)
    }
}

/// Builds it, which takes two minutes the first time.
pub(super) fn build(place: &Place) -> Result<Binary> {
    let manifest = place.peers().join("apalis/Cargo.toml");
    let target = place.kept("bench-peers");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "--manifest-path"]).arg(existing(&manifest)?);
    command.arg("--target-dir").arg(&target);
    process::run(&mut command, BUILD_LIMIT, place.scratch()?.path()).context("cargo build")?;
    Ok(Binary(target.join("release/peer-apalis")))
}

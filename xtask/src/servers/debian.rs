//! Another Debian in a folder, for servers that are newer than this one's.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{install, process::run};

/// The Debian that has RabbitMQ 4.0.
const RELEASE: &str = "trixie";

/// The folder with RabbitMQ 4.0 in it: as it was left by an earlier run, or fetched, which takes about a
/// minute and 370 MB. It fails where it cannot be had; the reason is for people.
pub(crate) fn with_rabbitmq(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/rabbitmq-4");
    let complete = root.join("target/rabbitmq-4.complete");
    if complete.is_file() && folder.is_dir() {
        return Ok(folder);
    }
    ensure!(install::is_root(), "only root can use another system in a folder");
    install::ensure_program("debootstrap", "debootstrap")?;
    // What an interrupted run has left is of no use.
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove what an earlier run has left")?;
    }
    let include = "--include=rabbitmq-server,procps";
    run(Command::new("debootstrap").args(["--variant=minbase", include, RELEASE]).arg(&folder))?;
    fs::write(&complete, RELEASE)?;
    Ok(folder)
}

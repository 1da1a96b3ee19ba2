//! Another Debian release in a folder, for servers that are newer than those of this machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{install, process::run};

/// The Debian release with RabbitMQ 4.0.
const RELEASE: &str = "trixie";

/// The folder with RabbitMQ 4.0, from an earlier run or newly created, which takes about a minute and 370 MB. If
/// that is not possible, the error says why.
pub(crate) fn with_rabbitmq(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/rabbitmq-4");
    let complete = root.join("target/rabbitmq-4.complete");
    if complete.is_file() && folder.is_dir() {
        return Ok(folder);
    }
    ensure!(install::is_root(), "only root can use another system in a folder");
    install::ensure_program("debootstrap", "debootstrap")?;
    // An interrupted run leaves an incomplete system.
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the folder of an earlier run")?;
    }
    let include = "--include=rabbitmq-server,procps";
    run(Command::new("debootstrap").args(["--variant=minbase", include, RELEASE]).arg(&folder))?;
    fs::write(&complete, RELEASE)?;
    Ok(folder)
}

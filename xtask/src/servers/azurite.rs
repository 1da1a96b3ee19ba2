//! Azurite, Microsoft's emulator of Azure Storage, and Microsoft's client for Node. Tests start them themselves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{install, process::run};

/// The newest client that works with the Node of Debian 12.
const PACKAGES: [&str; 2] = ["azurite@3.35.0", "@azure/storage-queue@12.26.0"];

/// The folder that both are installed in, from an earlier run or newly installed.
pub(crate) fn azurite(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/azurite");
    // Written last, so that an interrupted installation is done again.
    let (complete, packages) = (folder.join("complete"), PACKAGES.join(" "));
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == packages) {
        return Ok(folder);
    }
    install::ensure_program("node", "nodejs")?;
    install::ensure_program("npm", "npm")?;
    fs::create_dir_all(&folder)?;
    let arguments = ["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
    run(Command::new("npm").args(arguments).arg(&folder).args(PACKAGES))?;
    fs::write(&complete, packages)?;
    Ok(folder)
}

//! Peers in JavaScript: packages that are installed once, and again when they change.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::{existing, process};
use crate::Place;

const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Scripts beside their packages.
#[derive(Debug)]
pub struct Scripts(PathBuf);

impl Scripts {
    /// What runs one of them.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.0.join(script));
        command
    }
}

/// Installs what `package-lock.json` in `folder` names, into a copy of that folder called `name`: Node looks for
/// packages beside the script, and the sources stay clean.
pub fn install(place: &Place, folder: &str, name: &str) -> Result<Scripts> {
    let (sources, copy) = (place.peers().join(folder), place.kept(name));
    fs::create_dir_all(&copy)?;
    let lock = sources.join("package-lock.json");
    let wanted = fs::read_to_string(existing(&lock)?)?;
    for entry in fs::read_dir(&sources)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "js" || ending == "json") {
            fs::copy(&file, copy.join(file.file_name().context("it has a name")?))?;
        }
    }
    // Written last, so that an installation that broke off is done again.
    let stamp = copy.join("installed.txt");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        let mut command = Command::new("npm");
        command.args(["ci", "--no-fund", "--no-audit"]).current_dir(&copy);
        process::run(&mut command, INSTALL_LIMIT, place.scratch()?.path()).context("npm ci")?;
        fs::write(&stamp, &wanted)?;
    }
    Ok(Scripts(copy))
}

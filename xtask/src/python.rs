//! The Python client pika, in an environment of its own: tests use it as a client that is not ours.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    install,
    process::{run, succeeds},
};

const VERSION: &str = "1.4.4";

/// The Python interpreter that has pika, from an earlier run or newly installed.
pub(crate) fn interpreter(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/pika");
    let python = folder.join("bin/python");
    // Written last, so that an interrupted installation is done again.
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).is_ok_and(|installed| installed == VERSION) {
        return Ok(python);
    }
    ensure_environments()?;
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let package = format!("pika=={VERSION}");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
    fs::write(&complete, VERSION)?;
    Ok(python)
}

/// Debian has Python's virtual environments in a package of their own.
fn ensure_environments() -> Result<()> {
    match succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        true => Ok(()),
        false => install::packages(&["python3", "python3-venv"]),
    }
}

//! Packages for Python, each in an environment of its own: tests use them as clients that are not ours.

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

/// Talks to RabbitMQ.
pub(crate) const PIKA: Package = Package { name: "pika", version: "1.4.4" };
/// Microsoft's client for Azure Storage Queue.
pub(crate) const AZURE: Package = Package { name: "azure-storage-queue", version: "12.18.1" };
/// Receives HL7 messages by MLLP.
pub(crate) const HL7: Package = Package { name: "hl7", version: "0.4.5" };

/// Asks an API everything that its description allows, and much that it does not.
pub(crate) const SCHEMATHESIS: Package = Package { name: "schemathesis", version: "4.32.5" };

/// A package of PyPI.
pub(crate) struct Package {
    name: &'static str,
    version: &'static str,
}

impl Package {
    /// The Python interpreter that has the package, from an earlier run or newly installed.
    pub(crate) fn interpreter(&self, root: &Path) -> Result<PathBuf> {
        let Self { name, version } = self;
        let folder = root.join("target").join(name);
        let python = folder.join("bin/python");
        // Written last, so that an interrupted installation is done again.
        let complete = folder.join("complete");
        if fs::read_to_string(&complete).is_ok_and(|installed| installed == *version) {
            return Ok(python);
        }
        ensure_environments()?;
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let package = format!("{name}=={version}");
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
        fs::write(&complete, version)?;
        Ok(python)
    }
}

/// Debian has Python's virtual environments in a package of their own.
fn ensure_environments() -> Result<()> {
    match succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        true => Ok(()),
        false => install::packages(&["python3", "python3-venv"]),
    }
}

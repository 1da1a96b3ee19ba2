//! The Python peers: a virtual environment that is made once, and again when requirements change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{existing, process};
use crate::Place;
use anyhow::{Context as _, Result};

const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Python with the peers' packages.
#[derive(Debug)]
pub struct Interpreter {
    python: PathBuf,
    scripts: PathBuf,
}

impl Interpreter {
    /// What runs one of the scripts.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.python);
        // Keeps `__pycache__` out of the sources.
        command.arg("-B").arg(self.scripts.join(script));
        command
    }
}

/// Makes the environment `name` for the scripts in `folder`, unless it is there with the same requirements.
pub fn install(place: &Place, folder: &str, name: &str) -> Result<Interpreter> {
    let scripts = place.peers().join(folder);
    let requirements = scripts.join("requirements.txt");
    let wanted = fs::read_to_string(existing(&requirements)?)?;
    let environment = place.kept(name);
    let python = environment.join("bin/python");
    // Written last, so that an installation that broke off is done again.
    let stamp = environment.join("installed.txt");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        create(place, &environment)?;
        pip_install(place, &python, &requirements)?;
        fs::write(&stamp, &wanted)?;
    }
    Ok(Interpreter { python, scripts })
}

fn create(place: &Place, environment: &Path) -> Result<()> {
    let mut command = Command::new("python3");
    command.args(["-m", "venv", "--clear"]).arg(environment);
    run(place, &mut command).context("python3 -m venv")
}

fn pip_install(place: &Place, python: &Path, requirements: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements);
    run(place, &mut command).context("pip install")
}

fn run(place: &Place, command: &mut Command) -> Result<()> {
    process::run(command, INSTALL_LIMIT, place.scratch()?.path()).map(drop)
}

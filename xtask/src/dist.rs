//! `cargo xtask dist`: writes the contents of a package to the folder `dist` in cargo's target
//! folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    process::{cargo, output, run as run_command},
    say::say,
};

/// Shells, and the file names that they expect for completions.
const COMPLETIONS: [(&str, &str); 4] = [
    ("bash", "bezoar.bash"),
    ("zsh", "_bezoar"),
    ("fish", "bezoar.fish"),
    ("powershell", "_bezoar.ps1"),
];

/// Files that are packaged unchanged.
const FILES: [&str; 5] = [
    "packaging/bezoar.service",
    "packaging/bezoar.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

/// Builds the program for release, and lets it write its completions and manual pages.
pub(crate) fn run(root: &Path) -> Result<()> {
    let build = ["build", "--locked", "--profile", "dist", "--package", "bezoar-cli"];
    run_command(cargo(root).args(build))?;
    let dist = target(root)?.join("dist");
    let bezoar = dist.join("bezoar");
    complete(&bezoar, &dist.join("completions"))?;
    run_command(Command::new(&bezoar).arg("man").arg(dist.join("man")))?;
    for file in FILES {
        let name = Path::new(file).file_name().context("a file has a name")?;
        fs::copy(root.join(file), dist.join(name))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    let size = fs::metadata(&bezoar)?.len() as f64 / f64::from(1 << 20);
    say(format_args!("{}: the program has {size:.1} MiB", dist.display()));
    Ok(())
}

fn complete(bezoar: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (shell, name) in COMPLETIONS {
        let script = output(Command::new(bezoar).args(["completions", shell]))?;
        fs::write(folder.join(name), script)?;
    }
    Ok(())
}

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let metadata = output(cargo(root).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo has no target folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in FILES {
            assert!(root.join(file).is_file(), "{file}");
        }
    }
}

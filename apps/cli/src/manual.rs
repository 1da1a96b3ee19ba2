//! `bezoar completions` and `bezoar man`: shell completions and man pages for packages.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap_complete::{Shell, env::Shells};

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to generate completions for
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArguments {
    /// Folder to write to
    folder: PathBuf,
}

/// The variable by which a shell asks the program for completions.
pub(crate) const COMPLETE: &str = "BEZOAR_COMPLETE";

/// Prints the script with which a shell asks `program` for completions.
pub(crate) fn completions(program: &clap::Command, arguments: CompletionsArguments) -> Result<()> {
    let (mut script, name) = (Vec::new(), program.get_name());
    let shell = arguments.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&shell).context("this shell is not supported")?;
    shell.write_registration(COMPLETE, name, name, name, &mut script)?;
    output::print(&String::from_utf8(script)?).map(drop)
}

/// Writes a page for `program` and one for each of its commands.
pub(crate) fn man(program: clap::Command, arguments: ManArguments) -> Result<()> {
    let ManArguments { folder } = arguments;
    let cannot = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(cannot)?;
    clap_mangen::generate_to(program, &folder).with_context(cannot)
}

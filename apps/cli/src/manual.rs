//! `bezoar completions` and `bezoar man`: shell completions and man pages for packages.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap_complete::Shell;

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

/// Prints the completion script of `program` for a shell.
pub(crate) fn completions(
    mut program: clap::Command,
    arguments: CompletionsArguments,
) -> Result<()> {
    // The generator panics if it cannot write, for example to `| head`.
    let (mut script, name) = (Vec::new(), program.get_name().to_owned());
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    output::print(&String::from_utf8(script)?).map(drop)
}

/// Writes a page for `program` and one for each of its commands.
pub(crate) fn man(program: clap::Command, arguments: ManArguments) -> Result<()> {
    let ManArguments { folder } = arguments;
    let cannot = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(cannot)?;
    clap_mangen::generate_to(program, &folder).with_context(cannot)
}

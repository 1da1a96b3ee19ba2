//! `bezoar audit`: lists the audit log, and verifies that it was not tampered with.

mod entry;
mod list;
mod verify;

use anyhow::Result;

use crate::client::ApiClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List who did what, from where and why, oldest first
    List(list::Arguments),
    /// Verify that no entry was changed, removed or added
    Verify(verify::Arguments),
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    match arguments.command {
        Command::List(arguments) => list::run(arguments, client).await,
        Command::Verify(arguments) => verify::run(arguments, client).await,
    }
}

//! `bezoar dead`: messages that were set aside. Bodies, header values and error texts are not shown.

mod letter;
mod list;
mod show;
mod timeline;

use anyhow::Result;

use crate::client::Client;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Those that are there, oldest first
    List(list::Arguments),
    /// One of them, with every attempt
    Show(show::Arguments),
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    match arguments.command {
        Command::List(arguments) => list::run(arguments, client).await,
        Command::Show(arguments) => show::run(arguments, client).await,
    }
}

//! `bezoar dead`: messages that were set aside, and what is done about them. Only `reveal`, `edit` in an editor and
//! `export` ask for what is in them, each with a reason that the audit log keeps.

mod ack;
mod approve;
mod causes;
mod dead_letter;
mod discard;
mod edit;
mod export;
mod filter;
mod follow;
mod import;
mod list;
mod on_broker;
mod operation;
mod outcomes;
mod replay;
mod replays;
mod reveal;
mod selection;
mod show;
mod timeline;

use anyhow::Result;

use crate::client::ApiClient;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Those that are there, latest first
    List(list::Arguments),
    /// Why they died, in groups, the largest first
    Causes(causes::Arguments),
    /// Say what is known of a cause: acknowledged, resolved, or open again
    Ack(ack::Arguments),
    /// One of them, with every attempt
    Show(show::Arguments),
    /// A body, header values or error texts; the audit log keeps who looked, and why
    Reveal(reveal::Arguments),
    /// Send some back to their queues
    Replay(replay::Arguments),
    /// Replays and discards, how far they are; start, pause, resume or cancel one
    Replays(replays::Arguments),
    /// Make a new version with another body or other headers; the original stays
    Edit(edit::Arguments),
    /// Approve a new version that somebody else made
    Approve(approve::Arguments),
    /// Remove some for good
    Discard(discard::Arguments),
    /// Write some as lines of JSON, with all that is in them
    Export(export::Arguments),
    /// Read what was exported; what was imported before is passed over
    Import(import::Arguments),
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    match arguments.command {
        Command::List(arguments) => list::run(arguments, client).await,
        Command::Causes(arguments) => causes::run(arguments, client).await,
        Command::Ack(arguments) => ack::run(arguments, client).await,
        Command::Show(arguments) => show::run(arguments, client).await,
        Command::Reveal(arguments) => reveal::run(arguments, client).await,
        Command::Replay(arguments) => replay::run(arguments, client).await,
        Command::Replays(arguments) => replays::run(arguments, client).await,
        Command::Edit(arguments) => edit::run(arguments, client).await,
        Command::Approve(arguments) => approve::run(arguments, client).await,
        Command::Discard(arguments) => discard::run(arguments, client).await,
        Command::Export(arguments) => export::run(arguments, client).await,
        Command::Import(arguments) => import::run(arguments, client).await,
    }
}

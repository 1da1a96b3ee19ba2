//! `bezoar dead`: dead letters, and what operators do about them. Only `reveal`, `edit` in an editor and `export`
//! fetch their content, each with a reason that the audit log records.

mod abbreviation;
mod ack;
mod approve;
pub(crate) mod causes;
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
mod rejected;
mod replay;
pub(crate) mod replays;
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
    /// List dead letters, newest first
    List(list::Arguments),
    /// Group dead letters by cause, largest group first
    Causes(causes::Arguments),
    /// Mark a cause as acknowledged (default), resolved or open
    Ack(ack::Arguments),
    /// Show one dead letter with every attempt
    Show(show::Arguments),
    /// Show why messages were rejected, for queues whose dead letters stay on the broker
    Rejected(rejected::Arguments),
    /// Reveal a body, header values or error texts; recorded in the audit log
    Reveal(reveal::Arguments),
    /// Send dead letters back to their queues
    Replay(replay::Arguments),
    /// List replays and discards; start, pause, resume or cancel one
    Replays(replays::Arguments),
    /// Create an edited version of a dead letter; opens the body in your editor unless a change is
    /// given. The original is kept
    Edit(edit::Arguments),
    /// Approve an edited version that someone else created
    Approve(approve::Arguments),
    /// Remove dead letters for good
    Discard(discard::Arguments),
    /// Export dead letters as JSON lines, bodies included
    Export(export::Arguments),
    /// Import exported dead letters, skipping those that are already here
    Import(import::Arguments),
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    match arguments.command {
        Command::List(arguments) => list::run(arguments, client).await,
        Command::Causes(arguments) => causes::run(arguments, client).await,
        Command::Ack(arguments) => ack::run(arguments, client).await,
        Command::Show(arguments) => show::run(arguments, client).await,
        Command::Rejected(arguments) => rejected::run(arguments, client).await,
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

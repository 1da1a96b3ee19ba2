//! `bezoar queues`: message counts, ages and route states.

mod peek;

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::Result;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    client::{ApiClient, ApiReply},
    output,
    queue_status::{self, QueueStatus},
    queue_table,
};

const EVERY: Duration = Duration::from_secs(2);
/// Moves the cursor to the top left and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Refresh every two seconds until Ctrl-C
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, clap::Subcommand)]
enum QueuesCommand {
    /// List messages in a queue without taking them
    Peek(peek::Arguments),
}

pub(crate) async fn run(mut arguments: Arguments, client: &ApiClient) -> Result<()> {
    if let Some(QueuesCommand::Peek(arguments)) = arguments.command.take() {
        return peek::run(arguments, client).await;
    }
    if arguments.watch {
        return watch(&arguments, client).await;
    }
    show(&arguments, &queue_status::fetch(client).await?).map(drop)
}

/// Refreshes until interrupted, even if the gateway is temporarily unreachable.
async fn watch(arguments: &Arguments, client: &ApiClient) -> Result<()> {
    show(arguments, &queue_status::fetch(client).await?)?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await; // the first comes at once
    loop {
        ticks.tick().await;
        let reads_on = match queue_status::fetch(client).await {
            Ok(reply) => clear(arguments)? && show(arguments, &reply)?,
            Err(error) => {
                output::say(&format!("{:#}", anyhow::Error::new(error)));
                true
            }
        };
        if !reads_on {
            return Ok(());
        }
    }
}

fn clear(arguments: &Arguments) -> Result<bool> {
    match (arguments.json, io::stdout().is_terminal()) {
        (false, true) => output::print(CLEAR),
        (false, false) => output::print("\n"),
        (true, _) => Ok(true),
    }
}

fn show(arguments: &Arguments, reply: &ApiReply) -> Result<bool> {
    if arguments.json {
        return output::print_json(reply);
    }
    let all: Vec<QueueStatus> = reply.parse()?;
    if all.is_empty() {
        output::say("no queues visible to this token");
    }
    output::print_table(&queue_table::table(&all))
}

//! `bezoar poison-retry`: runs of the poison-queue retry processor.

use anyhow::Result;
use serde::Deserialize;

use crate::{
    client::{ApiClient, path},
    output,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Deliver a batch of a poison queue now, and print what became of it
    Run(RunArguments),
    /// List the poison queues that are worked on, and how the last run of each ended
    List(ListArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// Name of the poison queue, as in [[poison_retry]]
    queue: String,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Counts {
    taken: u64,
    delivered: u64,
    retried: u64,
    dead_lettered: u64,
    left: u64,
}

#[derive(Deserialize)]
struct Processor {
    queue: String,
    to: String,
    last_run: Option<LastRun>,
}

#[derive(Deserialize)]
struct LastRun {
    at: String,
    problem: Option<String>,
    counts: Option<Counts>,
}

pub(crate) async fn run(command: Command, client: &ApiClient) -> Result<()> {
    match command {
        Command::Run(arguments) => run_now(arguments, client).await,
        Command::List(arguments) => list(arguments, client).await,
    }
}

/// A run that could not proceed is an error, and so exit code 1.
async fn run_now(arguments: RunArguments, client: &ApiClient) -> Result<()> {
    let path = path(["v1", "poison-retries", &arguments.queue, "runs"]);
    let reply = client.post_and_wait(&path).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let counts: Counts = reply.parse()?;
    output::print(&format!("{}\n", sentence(&arguments.queue, &counts))).map(drop)
}

async fn list(arguments: ListArguments, client: &ApiClient) -> Result<()> {
    let reply = client.get("/v1/poison-retries").await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let all: Vec<Processor> = reply.parse()?;
    if all.is_empty() {
        output::say("no [[poison_retry]] is configured");
    }
    for it in all {
        let last = match it.last_run {
            None => "no run yet".to_owned(),
            Some(LastRun { at, problem: Some(problem), .. }) => format!("{at} failed: {problem}"),
            Some(LastRun { at, counts: Some(counts), .. }) => format!("{at} {}", outcome(&counts)),
            Some(LastRun { at, .. }) => at,
        };
        output::print(&format!("{} to {}: {last}\n", it.queue, it.to))?;
    }
    Ok(())
}

fn sentence(queue: &str, counts: &Counts) -> String {
    match counts.taken {
        0 => format!("{queue}: no messages to deliver"),
        _ => format!("{queue}: {}", outcome(counts)),
    }
}

fn outcome(counts: &Counts) -> String {
    let Counts { taken, delivered, retried, dead_lettered, left } = counts;
    let rest = match left {
        0 => String::new(),
        left => format!(", {left} left for a later run (see the gateway's log)"),
    };
    format!(
        "{taken} taken, {delivered} delivered, {retried} to be retried, {dead_lettered} dead-lettered{rest}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_in_a_sentence() {
        let counts =
            |taken, left| Counts { taken, delivered: 1, retried: 2, dead_lettered: 0, left };
        assert_eq!(sentence("lab/q", &counts(0, 0)), "lab/q: no messages to deliver");
        assert_eq!(
            sentence("lab/q", &counts(3, 0)),
            "lab/q: 3 taken, 1 delivered, 2 to be retried, 0 dead-lettered"
        );
        assert!(
            sentence("lab/q", &counts(4, 1))
                .ends_with(", 1 left for a later run (see the gateway's log)")
        );
    }
}

//! `bezoar poison-retry`: runs of the poison-queue retry processor.

use anyhow::Result;
use bezoar_gateway::api_types::{Page, PoisonRetry, PoisonRun, PoisonRunCounts, PoisonRunReport};

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
    let PoisonRunReport { counts, .. } = reply.parse()?;
    output::print(&format!("{}\n", sentence(&arguments.queue, &counts))).map(drop)
}

async fn list(arguments: ListArguments, client: &ApiClient) -> Result<()> {
    let reply = client.get("/v1/poison-retries").await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let Page { items: all, .. } = reply.parse::<Page<PoisonRetry>>()?;
    if all.is_empty() {
        output::say("no [[poison_retry]] is configured");
    }
    for it in all {
        let last = match it.last_run {
            None => "no run yet".to_owned(),
            Some(PoisonRun { ended_at, problem: Some(problem), .. }) => {
                format!("{ended_at} failed: {problem}")
            }
            Some(PoisonRun { ended_at, counts: Some(counts), .. }) => {
                format!("{ended_at} {}", outcome(&counts))
            }
            Some(PoisonRun { ended_at, .. }) => ended_at.to_string(),
        };
        output::print(&format!("{} to {}: {last}\n", it.queue, it.to))?;
    }
    Ok(())
}

fn sentence(queue: &str, counts: &PoisonRunCounts) -> String {
    match counts.taken {
        0 => format!("{queue}: no messages to deliver"),
        _ => format!("{queue}: {}", outcome(counts)),
    }
}

fn outcome(counts: &PoisonRunCounts) -> String {
    let PoisonRunCounts { taken, delivered, retried, dead_lettered, left } = counts;
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
        let counts = |taken, left| PoisonRunCounts {
            taken,
            delivered: 1,
            retried: 2,
            dead_lettered: 0,
            left,
        };
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

//! `bezoar dead replay`: sends dead letters back to their queues.

mod plan;

use std::time::Duration;

use anyhow::{Result, bail};
use bezoar_gateway::api_types::ReplayRequest;

use super::{
    follow, on_broker,
    operation::{self, OperationCommand, OperationReply, OperationText, begun},
    selection::{Selection, SelectionArguments},
};
use crate::{client::ApiClient, duration, humanize::plural, output, prompt, reason};

/// The highest rate that a gateway accepts.
const RATE_LIMIT: f64 = 1_000_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    options: ReplayOptions,
    /// Select and hold the dead letters without replaying them; start with `bezoar dead replays ID
    /// --start`, release with --cancel
    #[arg(long, conflicts_with_all = ["yes", "no_wait"])]
    plan: bool,
    /// Return immediately; the replay continues in the background
    #[arg(long)]
    no_wait: bool,
    /// Replay all dead letters that the broker keeps; requires --queue
    #[arg(long, conflicts_with_all = ["plan", "no_wait", "canary", "rate", "stop_after", "new_ids", "expect", "skip_held"])]
    on_broker: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

/// How the dead letters are sent.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct ReplayOptions {
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Replay N first; continue only if all of them succeed
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    canary: u32,
    /// Maximum number of messages per second, such as 20 or 0.5
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Stop after N messages have failed again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stop_after: Option<u32>,
    /// Assign new message ids, for receivers that ignore ids they have seen before
    #[arg(long)]
    new_ids: bool,
    /// Leave out dead letters that another replay or discard holds, instead of refusing to start
    #[arg(long)]
    skip_held: bool,
    /// Do nothing unless exactly N dead letters are selected
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// How long to repeat the request if its answer is lost or the gateway is busy; it starts only once [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s", hide_default_value = true)]
    retry_for: Duration,
}

/// How a replay is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartMode {
    /// Plan it only.
    Plan,
    /// Plan it, show the plan, and start it after confirmation.
    Ask,
    /// Start it immediately.
    Start,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { selection, options, plan, no_wait, on_broker, yes, json } = arguments;
    let selection = selection.resolve(client).await?;
    if on_broker {
        return on_broker::replay(client, &selection, &options.reason, yes, json).await;
    }
    let mode = match &selection {
        _ if plan => StartMode::Plan,
        Selection::Matching(_) if !yes && !prompt::is_possible() => bail!(
            "no terminal to confirm on; pass --yes, or pass --plan to hold the selected dead letters and review them first"
        ),
        Selection::Matching(_) if !yes => StartMode::Ask,
        _ => StartMode::Start,
    };
    let request = options.request(&selection, mode);
    let reply = client.start("/v1/replays", &request, options.retry_for).await;
    let reply = reply.and_then(OperationReply::new);
    let reply = begun(reply)?;
    if reply.operation.total == 0 {
        return nothing(client, &selection, reply, json).await;
    }
    let reply = match mode {
        StartMode::Plan => return planned(&reply, json),
        StartMode::Ask => confirmed(client, reply, &options.reason).await?,
        StartMode::Start => {
            let warnings = reply.operation.held().into_iter().chain(plan::canary(&reply.operation));
            warnings.for_each(|line| output::say(&line));
            reply
        }
    };
    match no_wait {
        true => started(&reply, json),
        false => follow::to_the_end(client, reply, json).await,
    }
}

impl ReplayOptions {
    fn request(&self, selection: &Selection, mode: StartMode) -> ReplayRequest {
        let (ids, filter) = selection.request();
        ReplayRequest {
            reason: self.reason.clone(),
            ids,
            filter,
            expect: self.expect,
            canary: self.canary,
            rate: self.rate,
            stop_after: self.stop_after,
            new_ids: self.new_ids,
            skip_held: self.skip_held,
            plan: mode != StartMode::Start,
        }
    }
}

/// Nothing is selected: cancels the empty plan.
async fn nothing(
    client: &ApiClient,
    selection: &Selection,
    reply: OperationReply,
    json: bool,
) -> Result<()> {
    let OperationReply { reply, operation } = reply;
    if !operation.is_over() {
        operation::send_command(
            client,
            &operation.id,
            OperationCommand::Cancel,
            "nothing selected",
        )
        .await?;
    }
    if json {
        output::print_json(&reply)?;
    }
    match selection {
        Selection::Matching(_) if operation.refused == 0 => {
            output::say("no dead letters match; nothing was replayed");
            Ok(())
        }
        _ => bail!("nothing was replayed; {}", plan::left_out(&operation).join("; ")),
    }
}

fn planned(reply: &OperationReply, json: bool) -> Result<()> {
    let id = &reply.operation.id;
    plan::describe(&reply.operation).iter().for_each(|line| output::say(line));
    output::say(&format!("start it with: bezoar dead replays {id} --start --reason TEXT"));
    print(reply, json)
}

fn started(reply: &OperationReply, json: bool) -> Result<()> {
    let (id, name) = (&reply.operation.id, reply.operation.name());
    output::say(&format!(
        "{name} continues in the background; follow with `bezoar dead replays {id} --wait`"
    ));
    print(reply, json)
}

/// Prints the id, or the JSON.
fn print(reply: &OperationReply, json: bool) -> Result<()> {
    match json {
        true => output::print_json(&reply.reply).map(drop),
        false => output::print(&format!("{}\n", output::printable(&reply.operation.id))).map(drop),
    }
}

/// Shows the plan, and starts it after confirmation.
async fn confirmed(
    client: &ApiClient,
    reply: OperationReply,
    reason: &str,
) -> Result<OperationReply> {
    let operation = &reply.operation;
    plan::describe(operation).iter().for_each(|line| output::say(line));
    let question = format!("Replay {}?", plural(operation.total, "message"));
    if prompt::confirm(&question).await? {
        return begun(
            operation::send_command(client, &operation.id, OperationCommand::Run, reason).await,
        );
    }
    operation::send_command(client, &operation.id, OperationCommand::Cancel, "not confirmed")
        .await?;
    bail!("nothing was replayed; the plan was cancelled")
}

/// `20/s`, `20` or `0.5/s`
fn rate(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().trim_end_matches("/s").trim_end().parse::<f64>();
    let rate = number.ok().filter(|rate| *rate > 0.0 && *rate <= RATE_LIMIT);
    rate.ok_or("expected a number per second such as 20 or 0.5")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        for (text, expected) in [("20/s", 20.0), ("0.5 /s", 0.5), ("7", 7.0)] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "/s", "0", "-1/s", "inf", "NaN", "5/m", "2000000/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}

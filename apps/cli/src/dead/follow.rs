//! Follows a replay or discard to its end.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bezoar_gateway::api_types::OperationState;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::{
    operation::{self, Operation, OperationReply, OperationText},
    outcomes,
};
use crate::{
    client::{ApiClient, ClientError, Retry},
    humanize::{count, plural},
    output,
};

/// How often its state is fetched.
const EVERY: Duration = Duration::from_millis(300);
/// How long the gateway may be unreachable.
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows it until it ends, then prints the result; an error unless everything succeeded.
pub(super) async fn to_the_end(
    client: &ApiClient,
    begun: OperationReply,
    json: bool,
) -> Result<()> {
    let (id, name) = (begun.operation.id.clone(), begun.operation.name());
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let watched = tokio::select! {
        watched = watch(client, begun) => watched,
        _ = interrupts.recv() => {
            leave(&id, &name);
            bail!("interrupted");
        }
    };
    // Whether it continues is unknown: the gateway may have stopped.
    let lost = || format!("lost track of {name}; follow it with `bezoar dead replays {id} --wait`");
    conclude(client, watched.with_context(lost)?, json).await
}

/// Prints how to follow it up.
fn leave(id: &str, name: &str) {
    output::say(&format!("{name} continues in the background"));
    output::say(&format!("  follow  bezoar dead replays {id} --wait"));
    output::say(&format!("  pause   bezoar dead replays {id} --pause --reason TEXT"));
    output::say(&format!("  cancel  bezoar dead replays {id} --cancel --reason TEXT"));
}

async fn watch(
    client: &ApiClient,
    mut reply: OperationReply,
) -> Result<OperationReply, ClientError> {
    let bar = OperationProgress::new(reply.operation.total);
    let mut retry = Retry::new(PATIENCE);
    loop {
        bar.show(&reply.operation);
        if reply.operation.is_over() {
            return Ok(reply);
        }
        sleep(EVERY).await;
        match operation::fetch(client, &reply.operation.id).await {
            Ok(newer) => (reply, retry) = (newer, Retry::new(PATIENCE)),
            Err(error) if error.is_transient() && retry.wait(error.retry_after()).await => {}
            Err(error) => return Err(error),
        }
    }
}

/// A progress bar on stderr; nothing if stderr is not a terminal.
struct OperationProgress(ProgressBar);

impl OperationProgress {
    fn new(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    fn show(&self, operation: &Operation) {
        let known = operation.completed.zip(operation.failed).map(|(done, failed)| done + failed);
        self.0.set_position(known.unwrap_or(operation.processed));
        let phase = match operation.state {
            OperationState::Paused => "paused: ".to_owned(),
            _ if operation.is_canary() => {
                format!("canary of {}: ", count(operation.canary.unwrap_or_default()))
            }
            _ => String::new(),
        };
        self.0.set_message(format!("{phase}{}", operation.progress()));
    }
}

impl Drop for OperationProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Prints the result.
async fn conclude(client: &ApiClient, reply: OperationReply, json: bool) -> Result<()> {
    let operation = &reply.operation;
    output::say(&summary(operation));
    let failed = operation.failed.unwrap_or_default();
    if failed > 0 {
        output::say("failed again:");
        // The causes are additional information: an error here does not change the result.
        let why = outcomes::failures(client, operation).await.unwrap_or_default();
        why.iter().for_each(|line| output::say(line));
    }
    if json {
        output::print_json(&reply.reply)?;
    }
    let name = operation.name();
    match operation.state {
        OperationState::Stopped => bail!(
            "{name} was stopped; continue with `bezoar dead replays {} --resume --reason TEXT`, or release the \
             remaining dead letters with --cancel",
            operation.id
        ),
        OperationState::Cancelled => bail!("{name} was cancelled"),
        _ if failed > 0 => bail!("{} failed again", plural(failed, "message")),
        _ => Ok(()),
    }
}

fn summary(operation: &Operation) -> String {
    let why =
        operation.stop_reason.as_ref().map(|why| format!(" because {why}")).unwrap_or_default();
    format!("{} {}{why}: {}", operation.name(), operation.state, operation.progress())
}

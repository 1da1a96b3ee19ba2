//! `bezoar pause` and `bezoar resume`: whether a route takes messages.

use anyhow::Result;
use serde::Deserialize;

use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    output,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The route's name, as `bezoar queues` shows it
    route: String,
    /// The gateway's JSON instead of words
    #[arg(long)]
    json: bool,
}

/// What a route should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteCommand {
    /// Take no more messages; they wait.
    Pause,
    /// Take messages again.
    Resume,
}

impl RouteCommand {
    /// The word for it, in commands and in the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

#[derive(Deserialize)]
struct RouteState {
    route: String,
    paused: bool,
}

pub(crate) async fn run(
    command: RouteCommand,
    arguments: Arguments,
    client: &ApiClient,
) -> Result<()> {
    let reply = send_command(command, &arguments.route, client).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let state: RouteState = reply.parse()?;
    let words = if state.paused { "is paused; its messages wait" } else { "takes messages" };
    output::say(&format!("the route {} {words}", state.route));
    Ok(())
}

/// Has a route do it. Doing it again changes nothing.
pub(crate) async fn send_command(
    command: RouteCommand,
    route: &str,
    client: &ApiClient,
) -> Result<ApiReply, ClientError> {
    client.post(&path(["v1", "routes", route, command.as_str()])).await
}

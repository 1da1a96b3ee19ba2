//! `bezoar pause` and `bezoar resume`.

use anyhow::Result;
use bezoar_gateway::api_types::RoutePause;

use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    complete, output,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the route, as shown by `bezoar queues`
    #[arg(add = complete::routes())]
    route: String,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A command for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteCommand {
    /// Stop delivering; messages wait.
    Pause,
    /// Deliver again.
    Resume,
}

impl RouteCommand {
    /// Its name on the command line and in the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
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
    let state: RoutePause = reply.parse()?;
    let text = if state.paused { "paused; its messages wait" } else { "resumed" };
    output::say(&format!("route {} {text}", state.route));
    Ok(())
}

/// Sends a command to a route. Repeating it changes nothing.
pub(crate) async fn send_command(
    command: RouteCommand,
    route: &str,
    client: &ApiClient,
) -> Result<ApiReply, ClientError> {
    client.post(&path(["v1", "routes", route, command.as_str()])).await
}

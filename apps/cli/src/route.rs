//! `bezoar pause` and `bezoar resume`: whether a route takes messages.

use anyhow::Result;
use serde::Deserialize;

use crate::{
    client::{Client, ClientError, Reply, path},
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
pub(crate) enum Order {
    /// Take no more messages; they wait.
    Pause,
    /// Take messages again.
    Resume,
}

impl Order {
    /// The word for it, in commands and in the API.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    route: String,
    paused: bool,
}

pub(crate) async fn run(order: Order, arguments: Arguments, client: &Client) -> Result<()> {
    let reply = give(order, &arguments.route, client).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let answer: Answer = reply.parse()?;
    let words = if answer.paused { "is paused; its messages wait" } else { "takes messages" };
    output::say(&format!("the route {} {words}", answer.route));
    Ok(())
}

/// Has a route do it. Doing it again changes nothing.
pub(crate) async fn give(order: Order, route: &str, client: &Client) -> Result<Reply, ClientError> {
    client.post(&path(["v1", "routes", route, order.as_str()])).await
}

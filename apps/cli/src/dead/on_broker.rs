//! `bezoar dead replay | discard --on-broker`: dead letters that stay on their broker, all of a queue's at once.

use anyhow::{Result, bail};
use bezoar::QueueName;
use serde::Deserialize;
use serde_json::json;

use super::{discard, selection::Selection};
use crate::{
    client::{ApiClient, ApiReply, path},
    humanize::plural,
    output, prompt,
};

/// Sends all that are on the broker back to where they came from.
pub(super) async fn replay(
    client: &ApiClient,
    selection: &Selection,
    reason: &str,
    yes: bool,
    json: bool,
) -> Result<()> {
    let queue = queue(selection)?;
    if !yes {
        if !prompt::is_possible() {
            bail!("nobody can be asked here whether all are meant; use --yes");
        }
        let question = format!("Send all dead letters of {queue} on its broker back?");
        if !prompt::confirm(&question).await? {
            bail!("nothing was replayed");
        }
    }
    let path = path(["v1", "queues", queue.as_str(), "replay"]);
    let reply = client.order(&path, &json!({ "reason": reason })).await?;
    #[derive(Deserialize)]
    struct Done {
        replayed: u64,
    }
    let Done { replayed } = reply.parse()?;
    told(&reply, json, &format!("{} sent back on the broker", plural(replayed, "message")))
}

/// Removes all that are on the broker for good.
pub(super) async fn discard(
    client: &ApiClient,
    selection: &Selection,
    reason: &str,
    (expect, yes): (Option<u64>, bool),
    json: bool,
) -> Result<()> {
    let queue = queue(selection)?;
    let number = match (expect, yes) {
        (Some(expected), true) => expected,
        (Some(expected), false) if prompt::is_possible() => {
            discard::typed(expected).await?;
            expected
        }
        _ => bail!("say how many there are on the broker with --expect N; `bezoar queues` tells"),
    };
    let path = path(["v1", "queues", queue.as_str(), "discard"]);
    let reply = client.order(&path, &json!({ "reason": reason, "expect": number })).await?;
    #[derive(Deserialize)]
    struct Done {
        discarded: u64,
    }
    let Done { discarded } = reply.parse()?;
    told(&reply, json, &format!("{} removed on the broker", plural(discarded, "dead letter")))
}

fn queue(selection: &Selection) -> Result<&QueueName> {
    match selection {
        Selection::Matching(filter) => filter.only_queue(),
        Selection::Ids(_) => None,
    }
    .ok_or_else(|| anyhow::anyhow!("--on-broker is for all of a queue: use it with --queue alone"))
}

fn told(reply: &ApiReply, json: bool, words: &str) -> Result<()> {
    if json {
        output::print_json(reply)?;
    } else {
        output::say(words);
    }
    Ok(())
}

//! `bezoar dead replay | discard --on-broker`: all dead letters of a queue that its broker keeps.

use anyhow::{Result, bail};
use bezoar::QueueName;
use bezoar_gateway::api_types::{
    BrokerDiscardRequest, BrokerDiscarded, BrokerReplayed, ReasonRequest,
};

use super::{discard, selection::Selection};
use crate::{
    client::{ApiClient, ApiReply, path},
    humanize::plural,
    output, prompt,
};

/// Replays all dead letters that the broker keeps.
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
            bail!("no terminal to confirm on; pass --yes");
        }
        let question = format!("Replay all dead letters of {queue} on its broker?");
        if !prompt::confirm(&question).await? {
            bail!("nothing was replayed");
        }
    }
    let path = path(["v1", "queues", queue.as_str(), "replay"]);
    let reply = client.order(&path, &ReasonRequest { reason: reason.to_owned() }).await?;
    let BrokerReplayed { replayed } = reply.parse()?;
    report(&reply, json, &format!("replayed {} on the broker", plural(replayed, "message")))
}

/// Discards all dead letters that the broker keeps.
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
        _ => bail!(
            "pass --expect N with the number of dead letters on the broker; see `bezoar queues`"
        ),
    };
    let path = path(["v1", "queues", queue.as_str(), "discard"]);
    let request = BrokerDiscardRequest { reason: reason.to_owned(), expect: number };
    let reply = client.order(&path, &request).await?;
    let BrokerDiscarded { discarded } = reply.parse()?;
    report(&reply, json, &format!("discarded {} on the broker", plural(discarded, "dead letter")))
}

fn queue(selection: &Selection) -> Result<&QueueName> {
    match selection {
        Selection::Matching(filter) => filter.only_queue(),
        Selection::Ids(_) => None,
    }
    .ok_or_else(|| {
        anyhow::anyhow!("--on-broker applies to a whole queue: combine it with --queue only")
    })
}

fn report(reply: &ApiReply, json: bool, words: &str) -> Result<()> {
    if json {
        output::print_json(reply)?;
    } else {
        output::say(words);
    }
    Ok(())
}

//! `bezoar dead show`: one dead letter and its timeline.

use anyhow::Result;
use bezoar::{Clock, DeadLetterId, SystemClock};
use bezoar_gateway::api_types::{DeadLetterDetails, Origin, UncountedFailures};
use jiff::Timestamp;

use super::{abbreviation::Abbreviated, dead_letter::state, timeline::timeline};
use crate::{
    client::{ApiClient, path},
    complete,
    humanize::{self, plural},
    output,
    table::Table,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of the dead letter, as shown by `bezoar dead list`
    #[arg(value_parser = super::dead_letter::id, add = complete::dead_letters())]
    id: Abbreviated<DeadLetterId>,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let id = arguments.id.resolve(client).await?;
    let reply = client.get(&path(["v1", "dead-letters", &id.to_string()])).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let letter = reply.parse()?;
    output::print(&format!("{}\n", facts(&letter, SystemClock.now()).render()))?;
    output::print_table(&timeline(&letter)).map(drop)
}

const PUBLISHED_TO: &str = "published to";

fn facts(letter: &DeadLetterDetails, now: Timestamp) -> Table {
    let dead = &letter.summary;
    let optional = |text: &Option<String>| text.as_deref().unwrap_or(humanize::NONE).to_owned();
    let mut facts = Table::of_facts();
    for (label, fact) in [
        (
            "dead letter",
            format!("{}, {} old", dead.id, humanize::age_of(dead.dead_lettered_at, now)),
        ),
        ("queue", dead.queue.clone()),
        ("state", state(dead)),
        ("reason", reason(letter)),
        ("last error", format!("{} ({})", dead.error.code, dead.error.kind)),
        ("last failure", last_failure(letter)),
        ("cause", dead.cause.clone()),
        ("message", dead.message_id.clone()),
        ("type", dead.r#type.clone()),
        ("correlation id", optional(&dead.correlation_id)),
        ("caused by", optional(&letter.causation_id)),
        (PUBLISHED_TO, origin(letter)),
        ("body", body(letter)),
        ("headers", headers(letter)),
        ("deliveries", deliveries(letter)),
        ("uncounted", uncounted(letter)),
        ("replayed", plural(dead.replays, "time")),
        ("included in", named("replay", &letter.operations)),
        ("failed before", named("as dead letter", &letter.earlier)),
        ("possible copy", named("of dead letter", dead.possible_copy_of.as_slice())),
        ("edited from", named("dead letter", dead.edited_from.as_slice())),
        ("versions", named("dead letter", &versions(letter))),
    ] {
        // Only messages of brokers were published to an exchange.
        if label != PUBLISHED_TO || letter.origin.is_some() {
            facts.push([label.into(), fact.into()]);
        }
    }
    facts
}

fn reason(letter: &DeadLetterDetails) -> String {
    format!("{} ({})", letter.summary.reason, letter.reason_code)
}

/// `replay op_209aaw0b, op_yygvnexs`
fn named(noun: &str, ids: &[String]) -> String {
    if ids.is_empty() { humanize::NONE.to_owned() } else { format!("{noun} {}", ids.join(", ")) }
}

/// Its edited versions, without the one it was edited from.
fn versions(letter: &DeadLetterDetails) -> Vec<String> {
    let from = letter.summary.edited_from.as_ref();
    letter.lineage.iter().filter(|id| Some(*id) != from).cloned().collect()
}

/// When the last attempt ended; the history shows when it started.
fn last_failure(letter: &DeadLetterDetails) -> String {
    letter.last_failure_at.map_or_else(|| humanize::NONE.to_owned(), humanize::moment)
}

/// `exchange lab, routing key results.new, virtual host /`
fn origin(letter: &DeadLetterDetails) -> String {
    let Some(Origin { exchange, routing_key, vhost }) = &letter.origin else {
        return humanize::NONE.to_owned();
    };
    let exchange = if exchange.is_empty() { "the default exchange" } else { exchange };
    format!("{exchange}, routing key {routing_key}, virtual host {vhost}")
}

fn body(letter: &DeadLetterDetails) -> String {
    let size = plural(letter.summary.body_bytes, "byte");
    format!("{size}, {}", letter.content_type.as_deref().unwrap_or("no content type"))
}

fn headers(letter: &DeadLetterDetails) -> String {
    let shown = letter
        .headers
        .iter()
        .map(|header| format!("{} ({})", header.name, plural(header.bytes, "byte")));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { humanize::NONE.to_owned() } else { shown.join(", ") }
}

fn deliveries(letter: &DeadLetterDetails) -> String {
    let times = humanize::count(letter.acquired);
    let failed = humanize::count(letter.summary.attempts);
    let released = humanize::count(letter.released);
    format!("{times} since it was sent or replayed: {failed} failed, {released} released")
}

/// `12, last http.503, from 2026-11-14T09:00:00Z to 2026-11-14T09:05:00Z, 3 while other messages succeeded`
fn uncounted(letter: &DeadLetterDetails) -> String {
    let Some(UncountedFailures { count, suspected, first_at, last_at, code }) = &letter.uncounted
    else {
        return humanize::NONE.to_owned();
    };
    let times = format!("{}, last {code}, from {first_at} to {last_at}", humanize::count(*count));
    match suspected {
        0 => times,
        some => format!("{times}, {} while other messages succeeded", humanize::count(*some)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dead_letter_is_described_without_its_content() {
        let letter: DeadLetterDetails = serde_json::from_value(json!({
            "id": "dl_e4295pe0", "queue": "lab", "message_id": "m-1", "type": "lab.result",
            "correlation_id": "c-7", "reason": "3 retries used up", "reason_code": "exhausted",
            "cause": "v1:0123456789abcdef", "state": "held", "operation": "op_h7y441e7", "edited_from": "dl_vdksmj2g",
            "lineage": ["dl_vdksmj2g", "dl_jcj4zbdg"], "operations": ["op_77ncnddj", "op_h7y441e7"],
            "earlier": ["dl_g4jmah4z", "dl_ddbhm0jv"], "possible_copy_of": "dl_wfxggda2",
            "error": { "kind": "transient", "code": "http-503" }, "attempts": 2, "replays": 1,
            "body_bytes": 1204, "dead_lettered_at": "2026-11-14T09:27:00Z", "created_at": "2026-11-14T09:00:00Z",
            "content_type": null, "causation_id": null, "acquired": 3, "released": 1,
            "last_failure_at": "2026-11-14T09:26:59.5Z",
            "headers": [{ "name": "source", "bytes": 4 }], "history": [],
            "origin": { "exchange": "lab", "routing_key": "results.new", "vhost": "/" },
            "uncounted": {
                "count": 12, "suspected": 3, "code": "http.503",
                "first_at": "2026-11-14T09:00:00Z", "last_at": "2026-11-14T09:05:00Z",
            },
        }))
        .unwrap();
        let expected = "\
dead letter     dl_e4295pe0, 2 h old
queue           lab
state           held by op_h7y441e7
reason          3 retries used up (exhausted)
last error      http-503 (transient)
last failure    2026-11-14 09:26:59 UTC
cause           v1:0123456789abcdef
message         m-1
type            lab.result
correlation id  c-7
caused by       –
published to    lab, routing key results.new, virtual host /
body            1,204 bytes, no content type
headers         source (4 bytes)
deliveries      3 since it was sent or replayed: 2 failed, 1 released
uncounted       12, last http.503, from 2026-11-14T09:00:00Z to 2026-11-14T09:05:00Z, 3 while other messages succeeded
replayed        1 time
included in     replay op_77ncnddj, op_h7y441e7
failed before   as dead letter dl_g4jmah4z, dl_ddbhm0jv
possible copy   of dead letter dl_wfxggda2
edited from     dead letter dl_vdksmj2g
versions        dead letter dl_jcj4zbdg
";
        let now = "2026-11-14T11:30:00Z".parse().unwrap();
        assert_eq!(facts(&letter, now).render(), expected);
    }
}

//! `bezoar dead show`: one dead letter, and what was tried when.

use anyhow::Result;
use bezoar::{Clock, SystemClock};
use jiff::Timestamp;

use super::{
    letter::{Letter, Summary, age},
    timeline::timeline,
};
use crate::{
    client::{Client, path},
    output,
    table::Table,
    words::{self, plural, plural_or_unknown},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The dead letter's number, as `bezoar dead list` shows it
    #[arg(allow_negative_numbers = true)]
    id: i64,
    /// The gateway's JSON instead of words
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    let reply = client.get(&path(["v1", "dead-letters", &arguments.id.to_string()])).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    output::print(&describe(&reply.parse()?, SystemClock.now())).map(drop)
}

fn describe(letter: &Letter, now: Timestamp) -> String {
    format!("{}\n{}", facts(letter, now).render(), timeline(letter).render())
}

fn facts(letter: &Letter, now: Timestamp) -> Table {
    let dead = &letter.summary;
    let optional = |text: &Option<String>| text.as_deref().unwrap_or(words::NONE).to_owned();
    let mut facts = Table::of_facts();
    for (label, fact) in [
        ("dead letter", format!("{}, {} old", dead.id, age(&dead.at, now))),
        ("queue", dead.queue.clone()),
        ("reason", format!("{} ({})", dead.reason.text, dead.reason.code)),
        ("last error", last_error(dead)),
        ("message", dead.message_id.clone()),
        ("type", dead.r#type.clone()),
        ("correlation id", optional(&dead.correlation_id)),
        ("caused by", optional(&letter.causation_id)),
        ("body", body(letter)),
        ("headers", headers(letter)),
        ("deliveries", deliveries(letter)),
        ("replayed", plural_or_unknown(dead.replayed, "time")),
    ] {
        facts.push([label.into(), fact.into()]);
    }
    facts
}

fn last_error(dead: &Summary) -> String {
    let shown = dead.error.as_ref().map(|error| format!("{} ({})", error.code, error.kind));
    shown.unwrap_or_else(|| words::NONE.to_owned())
}

fn body(letter: &Letter) -> String {
    let size = plural_or_unknown(letter.summary.body_bytes, "byte");
    format!("{size}, {}", letter.content_type.as_deref().unwrap_or("of no named type"))
}

fn headers(letter: &Letter) -> String {
    let shown = letter
        .headers
        .iter()
        .map(|header| format!("{} ({})", header.name, plural(header.bytes, "byte")));
    let shown: Vec<_> = shown.collect();
    if shown.is_empty() { words::NONE.to_owned() } else { shown.join(", ") }
}

fn deliveries(letter: &Letter) -> String {
    let times = words::count_or_unknown(letter.acquired);
    let failed = words::count_or_unknown(letter.summary.attempts);
    let released = words::count_or_unknown(letter.released);
    format!("{times} since it was sent or replayed: {failed} failed, {released} handed back")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dead_letter_is_described_without_its_content() {
        let letter: Letter = serde_json::from_value(json!({
            "id": 17, "queue": "lab", "message_id": "m-1", "type": "lab.result",
            "correlation_id": "c-7", "reason": { "code": "exhausted", "text": "3 retries used up" },
            "error": { "kind": "transient", "code": "http-503" }, "attempts": 2, "replayed": 1,
            "body_bytes": 1204, "at": "2026-11-14T09:27:00Z", "time": "2026-11-14T09:00:00Z",
            "content_type": null, "causation_id": null, "acquired": 3, "released": 1,
            "headers": [{ "name": "source", "bytes": 4 }], "history": [],
        }))
        .unwrap();
        let expected = "\
dead letter     17, 2 h old
queue           lab
reason          3 retries used up (exhausted)
last error      http-503 (transient)
message         m-1
type            lab.result
correlation id  c-7
caused by       –
body            1,204 bytes, of no named type
headers         source (4 bytes)
deliveries      3 since it was sent or replayed: 2 failed, 1 handed back
replayed        1 time
";
        let now = "2026-11-14T11:30:00Z".parse().unwrap();
        assert_eq!(facts(&letter, now).render(), expected);
    }
}

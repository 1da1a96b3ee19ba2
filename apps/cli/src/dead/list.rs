//! `bezoar dead list`

use anyhow::Result;
use bezoar::{Clock, QueueName, SystemClock};
use jiff::Timestamp;
use serde::Deserialize;

use super::letter::{Summary, age};
use crate::{
    client::{Client, encode},
    output,
    table::{Lean, Table},
    words,
};

const COLUMNS: &[(&str, Lean)] = &[
    ("id", Lean::Right),
    ("queue", Lean::Left),
    ("type", Lean::Left),
    ("correlation id", Lean::Left),
    ("error", Lean::Left),
    ("attempts", Lean::Right),
    ("replayed", Lean::Right),
    ("age", Lean::Right),
    ("reason", Lean::Left),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those of this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Those after this one, to go on where a list ended
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    after: Option<i64>,
    /// The gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct Page {
    dead_letters: Vec<Summary>,
    next: Option<i64>,
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    let reply = client.get(&arguments.path()).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let page: Page = reply.parse()?;
    if page.dead_letters.is_empty() {
        output::say("no dead letters");
        return Ok(());
    }
    output::print(&table(&page, SystemClock.now()).render())?;
    if let Some(next) = page.next {
        output::say(&format!("there may be more: {}", arguments.to_go_on(next)));
    }
    Ok(())
}

impl Arguments {
    fn path(&self) -> String {
        let queue = self.queue.iter().map(|queue| format!("&queue={}", encode(queue.as_str())));
        let after = self.after.iter().map(|after| format!("&after={after}"));
        let filter: String = queue.chain(after).collect();
        format!("/v1/dead-letters?limit={}{filter}", self.limit)
    }

    /// The command that shows the next page.
    fn to_go_on(&self, next: i64) -> String {
        let queue = self.queue.iter().map(|queue| format!(" --queue {queue:?}"));
        let queue: String = queue.collect();
        format!("bezoar dead list{queue} --limit {} --after {next}", self.limit)
    }
}

fn table(page: &Page, now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for dead in &page.dead_letters {
        table.push([
            dead.id.to_string().into(),
            dead.queue.as_str().into(),
            dead.r#type.as_str().into(),
            dead.correlation_id.as_deref().unwrap_or(words::NONE).into(),
            dead.error.as_ref().map_or(words::NONE, |error| error.code.as_str()).into(),
            words::count_or_unknown(dead.attempts).into(),
            words::count_or_unknown(dead.replayed).into(),
            age(&dead.at, now).into(),
            dead.reason.text.as_str().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_a_query_and_the_next_page_a_command() {
        let queue = Some(QueueName::new("hospital/a&b").unwrap());
        let arguments = Arguments { queue, limit: 5, after: Some(7), json: false };
        let expected = "/v1/dead-letters?limit=5&queue=hospital%2Fa%26b&after=7";
        assert_eq!(arguments.path(), expected);
        let expected = r#"bezoar dead list --queue "hospital/a&b" --limit 5 --after 12"#;
        assert_eq!(arguments.to_go_on(12), expected);
    }
}

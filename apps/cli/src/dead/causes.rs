//! `bezoar dead causes`: dead letters grouped by cause.

use anyhow::Result;
use bezoar::{Clock, SystemClock};
use jiff::Timestamp;
use serde::Deserialize;

use super::filter::Filter;
use crate::{
    client::ApiClient,
    humanize, output,
    table::{ALARM, Cell, Lean, Table, WARNING},
};

const COLUMNS: &[(&str, Lean)] = &[
    ("count", Lean::Right),
    ("this hour", Lean::Right),
    ("last hour", Lean::Right),
    ("first seen", Lean::Right),
    ("last seen", Lean::Right),
    ("state", Lean::Left),
    ("cause", Lean::Left),
    ("title", Lean::Left),
    ("note", Lean::Left),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of causes to list
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct CausesPage {
    causes: Vec<Cause>,
}

/// A group of dead letters that failed the same way.
#[derive(Debug, Deserialize)]
pub(super) struct Cause {
    pub(super) id: String,
    pub(super) title: String,
    count: u64,
    this_hour: Option<u64>,
    last_hour: Option<u64>,
    first_seen: String,
    last_seen: String,
    pub(super) state: String,
    note: Option<Note>,
}

#[derive(Debug, Deserialize)]
struct Note {
    text: String,
    who: String,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let (limit, filter) = (arguments.limit, arguments.filter.query());
    let reply = client.get(&format!("/v1/causes?limit={limit}{filter}")).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let page: CausesPage = reply.parse()?;
    let Some(largest) = page.causes.first() else {
        let matching = if arguments.filter.is_empty() { "" } else { " match" };
        output::say(&format!("no dead letters{matching}"));
        return Ok(());
    };
    output::print(&table(&page, SystemClock.now()).render())?;
    output::hint(&format!(
        "list the dead letters of a cause: bezoar dead list --cause {}",
        largest.id
    ));
    if page.causes.len() == limit as usize {
        output::say("there may be more; raise --limit or use filters");
    }
    Ok(())
}

fn table(page: &CausesPage, now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for cause in &page.causes {
        table.push([
            humanize::count(cause.count).into(),
            cause.growth(),
            humanize::count_or_unknown(cause.last_hour).into(),
            humanize::age_of(&cause.first_seen, now).into(),
            humanize::age_of(&cause.last_seen, now).into(),
            cause.condition(),
            cause.id.as_str().into(),
            cause.title.as_str().into(),
            cause.note(),
        ]);
    }
    table
}

impl Cause {
    /// The count of this hour, highlighted if it is higher than in the last hour.
    fn growth(&self) -> Cell {
        let text = humanize::count_or_unknown(self.this_hour);
        let grows = self.this_hour > self.last_hour;
        if grows { Cell::styled(&text, WARNING) } else { text.into() }
    }

    fn condition(&self) -> Cell {
        match self.state.as_str() {
            "regressed" => Cell::styled(&self.state, ALARM),
            state => state.into(),
        }
    }

    fn note(&self) -> Cell {
        match &self.note {
            Some(note) if note.text.is_empty() => format!("({})", note.who).into(),
            Some(note) => format!("{} ({})", note.text, note.who).into(),
            None => "".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn growing_and_regressed_causes_are_highlighted() {
        let cause = |this_hour: u64, state: &str| {
            json!({
                "id": "v1:0123456789abcdef", "title": "http-503 (transient) of t in q",
                "count": 1234, "this_hour": this_hour, "last_hour": 7, "state": state,
                "first_seen": "2026-11-14T09:00:00Z", "last_seen": "2026-11-14T11:59:00Z",
                "note": { "text": "ticket 7", "who": "ada", "at": "2026-11-14T10:00:00Z" },
            })
        };
        let causes = json!({ "causes": [cause(8, "regressed"), cause(7, "open")] });
        let page = serde_json::from_value(causes).unwrap();
        let text = table(&page, "2026-11-14T12:00:00Z".parse().unwrap()).render();
        assert!(text.contains("\u{1b}[33m8\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\u{1b}[31mregressed"), "{text:?}");
        let last = text.lines().last().unwrap();
        let expected = "1,234          7          7         3 h        1 m  open       \
                        v1:0123456789abcdef  http-503 (transient) of t in q  ticket 7 (ada)";
        assert_eq!(last, expected);
    }
}

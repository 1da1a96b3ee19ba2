//! `bezoar dead causes`: dead letters grouped by cause.

use anyhow::Result;
use bezoar::{Clock, SystemClock};
use bezoar_gateway::api_types::{Cause, CauseState, Page};
use jiff::Timestamp;

use super::filter::Filter;
use crate::{
    client::ApiClient,
    humanize, output,
    table::{Cell, Column, Table, Tone},
};

const COLUMNS: &[Column] = &[
    Column::number("count"),
    Column::number("this hour").drops(5),
    Column::number("last hour").drops(3),
    Column::number("first seen").drops(1),
    Column::number("last seen").drops(4),
    Column::text("state").drops(6),
    Column::text("cause"),
    Column::text("title").shrinks_to(30),
    Column::text("note").shrinks_to(12).drops(2),
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

pub(crate) async fn run(mut arguments: Arguments, client: &ApiClient) -> Result<()> {
    arguments.filter = arguments.filter.resolve(client).await?;
    let (limit, filter) = (arguments.limit, arguments.filter.query());
    let reply = client.get(&format!("/v1/causes?limit={limit}{filter}")).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let page: Page<Cause> = reply.parse()?;
    let Some(largest) = page.items.first() else {
        let matching = if arguments.filter.is_empty() { "" } else { " match" };
        output::say(&format!("no dead letters{matching}"));
        return Ok(());
    };
    output::print_table(&table(&page.items, SystemClock.now()))?;
    output::hint(&format!(
        "list the dead letters of a cause: bezoar dead list --cause {}",
        largest.id
    ));
    if page.items.len() == limit as usize {
        output::say("there may be more; raise --limit or use filters");
    }
    Ok(())
}

/// A row for each cause.
pub(crate) fn table(causes: &[Cause], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for cause in causes {
        table.push([
            humanize::count(cause.count).into(),
            growth(cause),
            humanize::count(cause.added_last_hour).into(),
            humanize::age_of(cause.first_seen_at, now).into(),
            humanize::age_of(cause.last_seen_at, now).into(),
            condition(cause),
            cause.id.as_str().into(),
            cause.title.as_str().into(),
            note(cause),
        ]);
    }
    table
}

/// The count of this hour, highlighted if it is higher than in the last hour.
fn growth(cause: &Cause) -> Cell {
    let text = humanize::count(cause.added_this_hour);
    let grows = cause.added_this_hour > cause.added_last_hour;
    if grows { Cell::toned(&text, Tone::Warning) } else { text.into() }
}

fn condition(cause: &Cause) -> Cell {
    match cause.state {
        CauseState::Regressed => Cell::toned(cause.state.as_str(), Tone::Alarm),
        state => state.as_str().into(),
    }
}

fn note(cause: &Cause) -> Cell {
    match &cause.note {
        Some(note) if note.text.is_empty() => format!("({})", note.author).into(),
        Some(note) => format!("{} ({})", note.text, note.author).into(),
        None => "".into(),
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
                "count": 1234, "added_this_hour": this_hour, "added_last_hour": 7, "state": state,
                "first_seen_at": "2026-11-14T09:00:00Z", "last_seen_at": "2026-11-14T11:59:00Z",
                "note": { "text": "ticket 7", "author": "ada", "written_at": "2026-11-14T10:00:00Z" },
            })
        };
        let causes = json!({ "items": [cause(8, "regressed"), cause(7, "open")], "next": null });
        let page: Page<Cause> = serde_json::from_value(causes).unwrap();
        let text = table(&page.items, "2026-11-14T12:00:00Z".parse().unwrap()).render();
        assert!(text.contains("\u{1b}[33m8\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\u{1b}[31mregressed"), "{text:?}");
        let last = text.lines().last().unwrap();
        let expected = "1,234          7          7         3 h        1 m  open       \
                        v1:0123456789abcdef  http-503 (transient) of t in q  ticket 7 (ada)";
        assert_eq!(last, expected);
    }
}

//! `bezoar dead list`: dead letters, newest first.

use anyhow::Result;
use bezoar::{Clock, SystemClock};
use bezoar_gateway::api_types::DeadLetterPage;
use jiff::Timestamp;

use super::{dead_letter::state, filter::Filter};
use crate::{
    client::ApiClient,
    humanize, output,
    table::{Column, Table},
};

const COLUMNS: &[Column] = &[
    Column::text("id"),
    Column::text("queue").shrinks_to(8),
    Column::text("type").shrinks_to(10).drops(3),
    Column::text("correlation id").shrinks_to(14).drops(1),
    Column::text("error"), // for --code
    Column::number("attempts").drops(4),
    Column::number("replayed").drops(2),
    Column::number("age"),
    Column::text("state").shrinks_to(8).drops(5),
    Column::text("reason").shrinks_to(16).drops(6),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Maximum number of dead letters to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue an earlier list; its last line says how
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(mut arguments: Arguments, client: &ApiClient) -> Result<()> {
    arguments.filter = arguments.filter.resolve(client).await?;
    let reply = client.get(&arguments.path()).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let page: DeadLetterPage = reply.parse()?;
    if page.items.is_empty() {
        output::say(&arguments.nothing());
        return Ok(());
    }
    output::print_table(&table(&page, SystemClock.now()))?;
    let words = if page.matching.count == 1 { "dead letter matches" } else { "dead letters match" };
    output::say(&format!("{} {words}", humanize::at_least(page.matching)));
    if let Some(next) = page.next {
        output::say(&format!("next page: {}", arguments.to_go_on(&next)));
    }
    Ok(())
}

impl Arguments {
    fn path(&self) -> String {
        let after = self.after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
        format!("/v1/dead-letters?limit={}{}{after}", self.limit, self.filter.query())
    }

    /// The command that shows the next page.
    fn to_go_on(&self, next: &str) -> String {
        format!("bezoar dead list{} --limit {} --after {next}", self.filter.flags(), self.limit)
    }

    fn nothing(&self) -> String {
        let more = if self.after.is_some() { " more" } else { "" };
        let matching = if self.filter.is_empty() { "" } else { " match" };
        format!("no{more} dead letters{matching}")
    }
}

fn table(page: &DeadLetterPage, now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    for dead in &page.items {
        table.push([
            dead.id.as_str().into(),
            dead.queue.as_str().into(),
            dead.r#type.as_str().into(),
            dead.correlation_id.as_deref().unwrap_or(humanize::NONE).into(),
            dead.error.code.as_str().into(),
            humanize::count(dead.attempts).into(),
            humanize::count(dead.replays).into(),
            humanize::age_of(dead.dead_lettered_at, now).into(),
            state(dead).into(),
            dead.reason.as_str().into(),
        ]);
    }
    table
}

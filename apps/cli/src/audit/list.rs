//! `bezoar audit list`

use anyhow::Result;

use super::entry::{AuditPage, AuditRecord};
use crate::{
    client::ApiClient,
    humanize, output,
    table::{Lean, Table},
};

const COLUMNS: &[(&str, Lean)] = &[
    ("number", Lean::Right),
    ("time", Lean::Left),
    ("who", Lean::Left),
    ("address", Lean::Left),
    ("action", Lean::Left),
    ("target", Lean::Left),
    ("reason", Lean::Left),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// List entries after this number, to continue an earlier list
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    after: u64,
    /// Maximum number of entries to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { after, limit, json } = arguments;
    let reply = client.get(&format!("/v1/audit?after={after}&limit={limit}")).await?;
    if json {
        return output::print_json(&reply).map(drop);
    }
    let page: AuditPage = reply.parse()?;
    let Some(last) = page.entries.last() else {
        output::say("no entries");
        return Ok(());
    };
    output::print(&table(&page.entries).render())?;
    output::say(&format!("{} entries in total", humanize::count(page.head.count)));
    if last.number < page.head.count {
        let next = last.number;
        output::say(&format!("next page: bezoar audit list --limit {limit} --after {next}"));
    }
    Ok(())
}

fn table(entries: &[AuditRecord]) -> Table {
    let mut table = Table::new(COLUMNS);
    for entry in entries {
        table.push([
            entry.number.to_string().into(),
            humanize::moment(&entry.at).into(),
            entry.who.as_str().into(),
            entry.from.as_str().into(),
            entry.verb.as_str().into(),
            entry.target.as_str().into(),
            entry.why.as_str().into(),
        ]);
    }
    table
}

//! `bezoar audit list`: the audit log, newest first.

use anyhow::Result;
use bezoar_gateway::api_types::{AuditPage, AuditRecord, AuditedOutcome};

use crate::{
    client::ApiClient,
    humanize::{self, count},
    output,
    table::{Column, Table},
};

const COLUMNS: &[Column] = &[
    Column::number("number").drops(2),
    Column::text("time"),
    Column::text("who").shrinks_to(8),
    Column::text("address").drops(1),
    Column::text("action").shrinks_to(10),
    Column::text("target").shrinks_to(12),
    Column::text("reason").shrinks_to(12).drops(3),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Continue an earlier list; its last line says how
    #[arg(long, value_name = "N")]
    after: Option<u64>,
    /// Maximum number of entries to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { after, limit, json } = arguments;
    let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
    let reply = client.get(&format!("/v1/audit?limit={limit}{after}")).await?;
    if json {
        return output::print_json(&reply).map(drop);
    }
    let page: AuditPage = reply.parse()?;
    if page.items.is_empty() {
        output::say("no entries");
        return Ok(());
    }
    output::print_table(&table(&page.items))?;
    output::say(&format!("{} entries in total", humanize::count(page.head.count)));
    if let Some(next) = page.next {
        output::say(&format!("next page: bezoar audit list --limit {limit} --after {next}"));
    }
    Ok(())
}

fn table(entries: &[AuditRecord]) -> Table {
    let mut table = Table::new(COLUMNS);
    for entry in entries {
        table.push([
            entry.number.to_string().into(),
            humanize::moment(entry.recorded_at).into(),
            entry.actor.as_str().into(),
            entry.address.as_str().into(),
            entry.verb.as_str().into(),
            target(entry).into(),
            entry.reason.as_str().into(),
        ]);
    }
    table
}

/// The target, with what came of its replay or discard.
fn target(entry: &AuditRecord) -> String {
    match &entry.outcome {
        Some(known) => format!("{} ({})", entry.target, outcome(known)),
        None => entry.target.clone(),
    }
}

/// `ended: 9 of 10 completed, 1 failed again`
fn outcome(outcome: &AuditedOutcome) -> String {
    let (total, processed) = (count(outcome.total), count(outcome.processed));
    let counts = match (outcome.completed, outcome.failed) {
        (Some(completed), Some(0)) => format!("{} of {total} completed", count(completed)),
        (Some(completed), Some(failed)) => {
            format!("{} of {total} completed, {} failed again", count(completed), count(failed))
        }
        _ => format!("{processed} of {total} discarded"),
    };
    format!("{}: {counts}", outcome.state)
}

#[cfg(test)]
mod tests {
    use bezoar_gateway::api_types::OperationState;

    use super::*;

    #[test]
    fn an_outcome_has_counts() {
        let mut ended = AuditedOutcome {
            state: OperationState::Ended,
            total: 10,
            processed: 10,
            completed: Some(9),
            failed: Some(1),
            ..AuditedOutcome::default()
        };
        assert_eq!(outcome(&ended), "ended: 9 of 10 completed, 1 failed again");
        (ended.completed, ended.failed) = (None, None);
        assert_eq!(outcome(&ended), "ended: 10 of 10 discarded");
    }
}

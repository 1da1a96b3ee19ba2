//! `bezoar status`: one verdict with its reasons, for people and for monitoring.

use anyhow::Result;
use bezoar_gateway::api_types::{GatewayStatus, Verdict};

use crate::{
    client::Connection,
    output,
    table::{Cell, Column, Table, Tone},
};

const EXIT_CODES: &str = "\
Exit codes of this command: 0 ok, 1 warning, 2 critical, 3 unknown, also if the gateway cannot be reached.";
const COLUMNS: &[Column] = &[Column::text("severity"), Column::text("reason")];

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A verdict other than ok, as the exit code that monitoring systems expect. What is wrong was printed already.
#[derive(Debug, thiserror::Error)]
#[error("the verdict is not ok")]
pub(crate) struct NotOk(pub(crate) u8);

/// Prints the verdict, which is also the exit code. A gateway that does not answer is unknown.
pub(crate) async fn run(arguments: Arguments, connection: &Connection) -> Result<()> {
    let verdict = match show(&arguments, connection).await {
        Ok(verdict) => verdict,
        Err(error) => {
            output::say_lines(&format!("bezoar: {error:#}"));
            Verdict::Unknown
        }
    };
    match exit_code(verdict) {
        0 => Ok(()),
        code => Err(NotOk(code).into()),
    }
}

async fn show(arguments: &Arguments, connection: &Connection) -> Result<Verdict> {
    let reply = connection.client()?.get("/v1/status").await?;
    let status: GatewayStatus = reply.parse()?;
    if arguments.json {
        output::print_json(&reply)?;
        return Ok(status.verdict);
    }
    output::print(&format!("{}\n", status.verdict))?;
    if !status.reasons.is_empty() {
        output::print_table(&table(&status))?;
    }
    Ok(status.verdict)
}

/// As monitoring plugins exit.
fn exit_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Ok => 0,
        Verdict::Warning => 1,
        Verdict::Critical => 2,
        Verdict::Unknown => 3,
    }
}

fn table(status: &GatewayStatus) -> Table {
    let mut table = Table::new(COLUMNS);
    for reason in &status.reasons {
        let tone = match reason.severity {
            Verdict::Ok => Tone::Plain,
            Verdict::Critical => Tone::Alarm,
            _ => Tone::Warning,
        };
        let severity = Cell::toned(&reason.severity.to_string(), tone);
        table.push([severity, reason.detail.as_str().into()]);
    }
    table
}

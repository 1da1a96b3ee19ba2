//! The gateway end to end, beside its limits, all in one run: a bare HTTP client that posts to the same
//! endpoint, bare SQLite that inserts, leases and deletes, and the least that puts the two together.
//!
//! Clients, endpoint and gateway share the processors, as the limits do. The gateway is a process of its own,
//! so that its memory and its start are its own.

mod bare;
mod endpoint;
mod gateway;
mod measures;
mod producers;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Result;
use bench_support::{Place, Report, Rounds, limit, load, progress};
use clap::Parser;

use crate::measures::Seen;

/// So many are delivered before memory is looked at.
const DELIVERED: u64 = 20_000;

/// Measures the gateway end to end.
#[derive(Debug, Parser)]
struct Options {
    /// A tenth of the messages: for a first look, not for a claim.
    #[arg(long)]
    quick: bool,
    /// How often each is measured; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// For ourselves: run a gateway in this folder.
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(folder) = &options.serve {
        gateway::serve(folder).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let divisor = if options.quick { 10 } else { 1 };
    let (place, load) = (Place::find()?, load::Window::open());
    let (rounds, seen) = measure_rounds(&place, options.rounds, 60_000 / divisor).await?;
    let mut report = Report::default();
    report_rates(&mut report, &rounds)?;
    report_start_and_memory(&mut report, &place, 1_000_000 / divisor).await?;
    if let Some(seen) = seen {
        report.note(format!("acceptance: {}", seen.acceptance));
        report.note(format!("from sending to arrival at the endpoint: {}", seen.delivery));
    }
    report.note(load.close());
    rounds.unsteady().into_iter().for_each(|unsteady| report.note(unsteady));
    writeln!(io::stdout().lock(), "{report}")?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All take turns, so that a busy moment of the machine hits them alike.
async fn measure_rounds(place: &Place, times: usize, count: u64) -> Result<(Rounds, Option<Seen>)> {
    let (mut rounds, mut last) = (Rounds::default(), None);
    for number in 1..=times {
        progress(&format!("round {number} of {times}"));
        rounds.add([limit::cycle(place, count)?, measures::bare_client(count).await?]);
        rounds.add([measures::bare_gateway(place, count).await?]);
        rounds.add([measures::beside_a_hanging_one(place, count).await?.rate]);
        rounds.add(measures::replay(place, count / 3).await?);
        let seen = measures::end_to_end(place, count).await?;
        rounds.add([seen.rate.clone()]);
        last = Some(seen);
    }
    Ok((rounds, last))
}

fn report_rates(report: &mut Report, rounds: &Rounds) -> Result<()> {
    let product = rounds.median(measures::END_TO_END)?;
    for (limit, needed) in
        [(limit::CYCLE, None), (measures::CLIENT, None), (measures::BARE, Some(0.85))]
    {
        let limit = rounds.median(limit)?;
        report.rate(&limit);
        report.compare(&product, &limit, needed);
    }
    report.compare(&rounds.median(measures::BESIDE)?, &product, Some(0.9));
    let deliver = rounds.median(measures::DELIVER)?;
    report.rate(&deliver);
    report.compare(&rounds.median(measures::REPLAY)?, &deliver, Some(0.5));
    Ok(())
}

async fn report_start_and_memory(report: &mut Report, place: &Place, backlog: u64) -> Result<()> {
    progress("starting with a message waiting");
    let millis = measures::start(place).await?.as_secs_f64() * 1e3;
    report.at_most("from start to first delivery, ms", millis, 200.0);
    progress("a short and a long backlog");
    let short = measures::memory(place, 2 * DELIVERED, DELIVERED).await?;
    let long = measures::memory(place, backlog, DELIVERED).await?;
    report.at_most("memory: long backlog / short one", long / short, 1.25);
    report.note(format!("memory: {short:.0} MiB with a short backlog, {long:.0} with a long one"));
    Ok(())
}

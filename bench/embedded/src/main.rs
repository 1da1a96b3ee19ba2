//! The embedded queue against bare SQLite and against its peers, all in one run.
//!
//! Only ratios of the same run mean anything: the absolute figures are the machine's. Layout:
//!
//! - `product`, `backlog`: the embedded queue itself, and what a long backlog costs;
//! - `peers`: other embedded queues, each in its own process;
//! - `options`: how much to measure.
//!
//! The limit, a bare rusqlite program with the product's durability, is in `bench_support`.

mod backlog;
mod options;
mod peers;
mod product;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use bench_support::{Place, Report, Rounds, limit, load, progress};
use clap::Parser as _;

use crate::backlog::Seen;
use crate::options::{Options, Sizes};
use crate::peers::Peers;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(folder) = &options.folder {
        return child(&options, folder);
    }
    let sizes = options.sizes();
    let place = Place::find()?;
    let mut peers = if options.skip_peers { Peers::none() } else { Peers::prepare(&place) };

    let load = load::Window::open();
    let rounds = measure_rounds(&place, &sizes, &mut peers)?;
    progress("backlogs of a thousand and of a million");
    let backlogs = backlog::measure(&place, &sizes)?;
    let report = report(&rounds, &backlogs, &peers, load.close())?;

    writeln!(io::stdout().lock(), "{report}")?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All take turns, so that a busy moment of the machine hits them alike.
fn measure_rounds(place: &Place, sizes: &Sizes, peers: &mut Peers) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    for number in 1..=sizes.rounds {
        progress(&format!("round {number} of {}: limit", sizes.rounds));
        rounds.add(limit::round(place, sizes.messages)?);
        progress(&format!("round {number} of {}: bezoar", sizes.rounds));
        rounds.add(product::round(place, sizes)?);
        rounds.add(peers.round(place, sizes));
    }
    Ok(rounds)
}

/// What a process does that was started to have a memory of its own.
fn child(options: &Options, folder: &Path) -> Result<ExitCode> {
    match (options.fill, options.look) {
        (Some(backlog), _) => backlog::fill(folder, backlog)?,
        _ => serde_json::to_writer(io::stdout().lock(), &backlog::look(folder)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(rounds: &Rounds, backlogs: &[Seen; 2], peers: &Peers, load: String) -> Result<Report> {
    let mut report = Report::default();
    report_limit(&mut report, rounds)?;
    report_product(&mut report, rounds, backlogs)?;
    report_peers(&mut report, rounds, peers)?;
    report.note(load);
    rounds.unsteady().into_iter().for_each(|unsteady| report.note(unsteady));
    Ok(report)
}

fn report_limit(report: &mut Report, rounds: &Rounds) -> Result<()> {
    report.note(format!("limit: {}", limit::settings()));
    let insert = rounds.median(limit::INSERT_BATCHED)?;
    let process = rounds.median(limit::PROCESS_BATCHED)?;
    report.rate(&insert);
    report.rate(&process);
    report.compare(&rounds.median(limit::INSERT_SINGLY)?, &insert, None);
    report.compare(&rounds.median(limit::PROCESS_SINGLY)?, &process, None);
    Ok(())
}

fn report_product(report: &mut Report, rounds: &Rounds, [short, long]: &[Seen; 2]) -> Result<()> {
    let (accept, process) = (rounds.median(product::ACCEPT)?, rounds.median(product::PROCESS)?);
    report.compare(&accept, &rounds.median(limit::INSERT_BATCHED)?, Some(0.6));
    report.compare(&process, &rounds.median(limit::PROCESS_BATCHED)?, Some(0.6));
    report.compare(&rounds.median(product::SET_ASIDE)?, &process, Some(0.5));
    let (few, many) = (short.claim_micros, long.claim_micros);
    report.at_most("claim and complete 16: long backlog / short one", many / few, 1.3);
    report.at_most("memory with the long backlog, MiB", long.resident_mib, 100.0);
    report.at_most("processor while nothing happens, %", long.idle_percent, 1.0);
    report.note(format!(
        "claim and complete 16: {few:.0} µs with a short backlog, {many:.0} µs with a long one"
    ));
    Ok(())
}

fn report_peers(report: &mut Report, rounds: &Rounds, peers: &Peers) -> Result<()> {
    for (name, settings) in peers.settings() {
        match settings {
            Ok(settings) => {
                let peer = rounds.median(name)?;
                report.rate(&peer);
                report.compare(&rounds.median(product::PROCESS)?, &peer, needed(name));
                report.note(format!("{name}: {settings}"));
            }
            Err(reason) => report.unavailable(name, reason),
        }
    }
    Ok(())
}

/// How many times as fast as a peer we must be. What apalis could be with other query plans is shown for
/// comparison: nobody gets it, and bare SQLite is less than five times as fast.
fn needed(peer: &str) -> Option<f64> {
    match peer {
        tuned if tuned.contains("tuned") => None,
        apalis if apalis.starts_with("apalis") => Some(15.0),
        _ => Some(10.0),
    }
}

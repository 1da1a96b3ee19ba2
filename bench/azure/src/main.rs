//! Queues on Azure Storage Queue beside the official crate used bare and beside Microsoft's clients, all in one run.
//!
//! Each contender puts a message, receives one and deletes it, sixteen at a time. Only ratios of the same round mean
//! anything: the absolute figures are the machine's. Layout:
//!
//! - `bare`: the limit, the official crate and nothing else; `product`: the same work through `bezoar`;
//! - `server`: where the queues are: Azurite, or a stub (`stub`) that answers at once;
//! - `peers`: Microsoft's clients for Python and Node, each in its own process;
//! - `options`: how much to measure.

mod bare;
mod options;
mod peers;
mod product;
mod server;
mod stub;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use bench_support::{Measurement, Place, Report, Rounds, load, progress};
use clap::Parser as _;
use tokio::time::Instant;

use crate::{
    options::{Contender, Options},
    peers::Peers,
    server::Server,
};

/// How many loops put, receive and delete at a time.
const CONCURRENCY: u64 = 16;
/// About what a small event takes.
const BODY: [u8; 200] = [b'x'; 200];

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let load = load::Window::open();
    let place = Place::find()?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let skips_peers = options.skip_peers || options.contender.is_some();
    let mut peers = (!skips_peers).then(|| Peers::prepare(&place));
    let servers = Server::start_all(&options)?;
    let mut rounds = Rounds::default();
    for number in 1..=options.rounds {
        for server in &servers {
            progress(&format!("round {number} of {}, {}", options.rounds, server.name));
            rounds.add(measure(server, &options).await?);
            if let Some(peers) = &mut peers {
                rounds.add(peers.round(&place, server, options.messages_of_peers()).await?);
            }
        }
    }
    let mut report = Report::default();
    for server in &servers {
        report_on(&mut report, &rounds, server, peers.as_ref())?;
    }
    report.note(load.close());
    rounds.unsteady().into_iter().for_each(|unsteady| report.note(unsteady));
    writeln!(io::stdout().lock(), "{report}")?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The limit and ours in turn, so that a busy moment of the machine hits them alike.
async fn measure(server: &Server, options: &Options) -> Result<Vec<Measurement>> {
    let (count, mut measured) = (options.messages(server.kind), Vec::new());
    if options.wants(Contender::Bezoar) {
        measured.push(product::measure(server, count).await?);
    }
    if options.wants(Contender::Bare) {
        measured.push(bare::measure(server, count).await?);
    }
    Ok(measured)
}

fn report_on(
    report: &mut Report,
    rounds: &Rounds,
    server: &Server,
    peers: Option<&Peers>,
) -> Result<()> {
    let (ours, limit) = (server.row(product::NAME), server.row(bare::NAME));
    if let (Ok(only), Err(_)) | (Err(_), Ok(only)) = (rounds.median(&ours), rounds.median(&limit)) {
        report.rate(&only);
        return Ok(());
    }
    report.rate(&rounds.median(&limit)?);
    report.compare_rounds(rounds, [&ours, &limit], Some(server.needed))?;
    for (peer, settings) in peers.into_iter().flat_map(Peers::shown) {
        let name = server.row(peer);
        match settings {
            Ok(settings) => {
                report.rate(&rounds.median(&name)?);
                report.compare_rounds(rounds, [&ours, &name], server.needed_of_peers)?;
                report.note(format!("{name}: {settings}"));
            }
            Err(reason) => report.unavailable(&name, reason),
        }
    }
    Ok(())
}

/// So many since then.
fn rate(name: &str, count: u64, started: Instant) -> Measurement {
    Measurement::new(name, count as f64 / started.elapsed().as_secs_f64())
}

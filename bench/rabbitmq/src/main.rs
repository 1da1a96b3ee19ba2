//! Queues on RabbitMQ beside bare lapin programs and beside peers, all in one run.
//!
//! Only ratios of the same round mean anything: the absolute figures are the machine's. Layout:
//!
//! - `bare`, `broker`: the limit, bare lapin programs with the product's durability and prefetch;
//! - `product`: the same work through `bezoar`; `failing`: what both do when every attempt fails;
//! - `paced`, `stopwatch`: latencies at a thousand messages a second;
//! - `delays`: many messages with random delays; `check`: checking queues on a broker with many others;
//! - `http`, `gateway`: from a queue to an HTTP endpoint;
//! - `peers`: other programs, each in its own process;
//! - `options`, `report`: how much to measure, and what is needed.

mod bare;
mod broker;
mod check;
mod delays;
mod failing;
mod gateway;
mod http;
mod options;
mod paced;
mod peers;
mod product;
mod report;
mod stopwatch;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use bench_support::{Measurement, Place, Report, Rounds, load, progress};
use bezoar::rabbitmq::DeadLettering;
use clap::Parser as _;
use tokio::time::Instant;

use crate::{
    broker::Bare,
    options::{Only, Options, Sizes},
    peers::Peers,
    report::Times,
};

/// What a bare program fills and a worker empties, and the other way round.
const WORK: &str = "work";

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let (sizes, load) = (options.sizes(), load::Window::open());
    let place = Place::find()?;
    let mut peers = match options.skip_peers || options.only.is_some() {
        true => None,
        false => Some(Peers::prepare(&place)),
    };
    let (mut rounds, mut times) = (Rounds::default(), Times::default());
    for number in 1..=options.rounds {
        progress(&format!("round {number} of {}", options.rounds));
        let turn = if number % 2 == 1 { Turn::OursFirst } else { Turn::LimitFirst };
        measure_rates(&options, &sizes, turn, &mut rounds).await?;
        if options.wants(Only::Paced) {
            measure_times(&options.broker, sizes.paced, &mut times).await?;
        }
        if let Some(peers) = &mut peers {
            rounds.add(peers.round(&place, &options.broker, &sizes).await?);
        }
    }
    let checked = measure_check(&options).await?;
    let mut report = Report::default();
    report::rates(&mut report, &rounds, &options)?;
    times.report(&mut report);
    checked.into_iter().for_each(|took| report::check(&mut report, took));
    if let Some(peers) = &peers {
        report::peers(&mut report, &rounds, peers)?;
    }
    if options.wants(Only::Delays) && !options.skip_delays {
        progress("random delays");
        report::delays(&mut report, &delays::measure(&options.broker, sizes.delayed).await?);
    }
    report.note(load.close());
    rounds.unsteady().into_iter().for_each(|unsteady| report.note(unsteady));
    writeln!(io::stdout().lock(), "{report}")?;
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is measured first in a round. It alternates: what comes second finds another broker, with files to be removed
/// and memory in use.
#[derive(Debug, Clone, Copy)]
enum Turn {
    OursFirst,
    LimitFirst,
}

impl Turn {
    async fn both(
        self,
        ours: impl Future<Output = Result<Measurement>>,
        limit: impl Future<Output = Result<Measurement>>,
    ) -> Result<[Measurement; 2]> {
        match self {
            Self::OursFirst => Ok([ours.await?, limit.await?]),
            Self::LimitFirst => {
                let limit = limit.await?;
                Ok([ours.await?, limit])
            }
        }
    }
}

/// The limit and ours in turn, so that a busy moment of the machine hits them alike.
async fn measure_rates(
    options: &Options,
    sizes: &Sizes,
    turn: Turn,
    rounds: &mut Rounds,
) -> Result<()> {
    let (url, count) = (options.broker.as_str(), sizes.messages);
    if options.wants(Only::Publish) {
        let (ours, limit) = (product::publish(url, count), publish_and_remove(url, count));
        rounds.add(turn.both(ours, limit).await?);
    }
    if options.wants(Only::Consume) {
        let ours = filled(url, count, product::consume(url, WORK, count));
        let limit = filled(url, count, bare::consume(url, WORK, count));
        rounds.add(turn.both(ours, limit).await?);
    }
    if options.wants(Only::Fail) {
        let count = sizes.share(5);
        rounds.add(turn.both(product::fail(url, count), bare::fail(url, count)).await?);
    }
    if options.wants(Only::Http) {
        measure_http(options, sizes.share(5), turn, rounds).await?;
    }
    Ok(())
}

/// The gateway only where it is named: it is a program that must have been built.
async fn measure_http(
    options: &Options,
    count: u64,
    turn: Turn,
    rounds: &mut Rounds,
) -> Result<()> {
    let url = options.broker.as_str();
    let limit = filled(url, count, http::bare(url, WORK, count));
    let Some(program) = &options.gateway else {
        rounds.add([limit.await?]);
        return Ok(());
    };
    let place = Place::find()?;
    let ours = filled(url, count, gateway::deliver(&place, program, (url, WORK), count));
    rounds.add(turn.both(ours, limit).await?);
    Ok(())
}

/// Once: it has a limit in seconds, and nothing beside it.
async fn measure_check(options: &Options) -> Result<Option<Duration>> {
    let Some(management) = options.management.as_deref().filter(|_| options.wants(Only::Check))
    else {
        return Ok(None);
    };
    progress("check among a thousand queues");
    check::measure(&options.broker, management).await.map(Some)
}

async fn measure_times(url: &str, count: u64, times: &mut Times) -> Result<()> {
    times.handled.push(paced::latencies(url, count).await?);
    times.set_aside.push([
        paced::set_aside(url, count, DeadLettering::Publish).await?,
        paced::set_aside(url, count, DeadLettering::Reject).await?,
    ]);
    Ok(())
}

async fn publish_and_remove(url: &str, count: u64) -> Result<Measurement> {
    let bare = Bare::connect(url).await?;
    bare.fresh(WORK, &[]).await?;
    let published = bare::publish(url, WORK, count).await?;
    bare.delete(&[WORK]).await?;
    bare.close().await;
    Ok(published)
}

/// Measures with messages in the queue.
async fn filled(
    url: &str,
    count: u64,
    measured: impl Future<Output = Result<Measurement>>,
) -> Result<Measurement> {
    fill(url, count).await?;
    measured.await
}

/// Both consume the same messages from the same queue, which is one of ours.
async fn fill(url: &str, count: u64) -> Result<()> {
    let product = product::Product::open(url, DeadLettering::Publish)?;
    product.bezoar.provision(WORK).await?;
    product.close().await;
    bare::publish(url, WORK, count).await.map(drop)
}

/// So many since then.
fn rate(name: &str, count: u64, started: Instant) -> Measurement {
    Measurement::new(name, count as f64 / started.elapsed().as_secs_f64())
}

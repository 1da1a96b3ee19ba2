//! What a long backlog costs: claiming, memory, and the processor while nothing happens.

use std::{fs, num::NonZeroU32, path::Path, process::Command, time::Duration, time::Instant};

use anyhow::{Context as _, Result, bail};
use bench_support::Place;
use bezoar::{Bezoar, QueueName, Router, Settlement, Shutdown, SubscribeOptions, Worker};
use serde::{Deserialize, Serialize};

use crate::options::Sizes;
use crate::product;

/// What one process saw with a backlog of a given length.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The median time of a claim of 16 messages and their completion, in microseconds.
    pub(crate) claim_micros: f64,
    /// Memory held after that, in MiB.
    pub(crate) resident_mib: f64,
    /// Share of one processor while a worker waits at an empty queue, in percent.
    pub(crate) idle_percent: f64,
}

const CLAIMS: usize = 400;
const IDLE: Duration = Duration::from_secs(5);

/// A short and a long backlog, looked at in turn, each time in a process of its own: memory is that of nothing
/// else, and a busy moment of the disk hits both.
pub(crate) fn measure(place: &Place, sizes: &Sizes) -> Result<[Seen; 2]> {
    let short = 16 * CLAIMS as u64 * u64::from(sizes.rounds) + 1_000;
    let folders = [place.scratch()?, place.scratch()?];
    for (folder, backlog) in folders.iter().zip([short, sizes.backlog]) {
        ourselves("--fill", backlog, folder.path())?;
    }
    // What filling left to the operating system is not to be paid for by whoever is measured next.
    Command::new("sync").status().context("sync")?;
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..sizes.rounds {
        for (seen, folder) in seen.iter_mut().zip(&folders) {
            let printed = ourselves("--look", 0, folder.path())?;
            seen.push(serde_json::from_slice(&printed)?);
        }
    }
    Ok(seen.map(median))
}

/// Of each figure its own.
fn median(seen: Vec<Seen>) -> Seen {
    let middle = |figure: fn(&Seen) -> f64| {
        let mut figures: Vec<_> = seen.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    Seen {
        claim_micros: middle(|seen| seen.claim_micros),
        resident_mib: middle(|seen| seen.resident_mib),
        idle_percent: middle(|seen| seen.idle_percent),
    }
}

/// What this program prints in another role.
fn ourselves(role: &str, backlog: u64, folder: &Path) -> Result<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args([role, &backlog.to_string()]).arg(folder).output()?;
    if !output.status.success() {
        bail!("{role} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The part of a child: fills the database in batches.
pub(crate) fn fill(directory: &Path, backlog: u64) -> Result<()> {
    runtime()?.block_on(async {
        let bezoar = product::open(directory).await?;
        product::accept(&bezoar, backlog, 4, 250).await
    })
}

/// The part of a child: claims from the backlog, then does nothing.
pub(crate) fn look(directory: &Path) -> Result<Seen> {
    runtime()?.block_on(async {
        let bezoar = product::open(directory).await?;
        let claim_micros = claims(&bezoar).await?;
        let resident_mib = resident_mib()?;
        let idle_percent = idle(&bezoar).await?;
        Ok(Seen { claim_micros, resident_mib, idle_percent })
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

async fn claims(bezoar: &Bezoar) -> Result<f64> {
    let queue = QueueName::new(product::QUEUE)?;
    let subscription = bezoar.transport().subscribe(&queue, SubscribeOptions::default()).await?;
    let sixteen = NonZeroU32::new(16).context("16 is not 0")?;
    let mut times = Vec::with_capacity(CLAIMS);
    for _ in 0..CLAIMS {
        let start = Instant::now();
        let claimed = subscription.receive(sixteen, Duration::ZERO).await?;
        let batch = claimed.into_iter().map(|delivery| (delivery, Settlement::Complete)).collect();
        for settled in subscription.settle(batch).await {
            settled?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// A worker that waits at another, empty queue.
async fn idle(bezoar: &Bezoar) -> Result<f64> {
    let (shutdown, worker) = (Shutdown::default(), Worker::new("idle", Router::new())?);
    let running = tokio::spawn({
        let (bezoar, shutdown) = (bezoar.clone(), shutdown.clone());
        async move { bezoar.run_until(worker, shutdown).await }
    });
    let (before, start) = (processor_seconds()?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let percent = 100.0 * (processor_seconds()? - before) / start.elapsed().as_secs_f64();
    shutdown.drain();
    running.await??;
    Ok(percent)
}

fn resident_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// User and system time of this process; the kernel counts hundredths of a second.
fn processor_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

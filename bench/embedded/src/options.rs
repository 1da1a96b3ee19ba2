//! How much to measure.

use std::path::PathBuf;

use bench_support::BATCH;
use clap::Parser;

const DEFAULT_MESSAGES: u64 = 300_000;
const QUICK_MESSAGES: u64 = 30_000;

/// Measures the embedded queue against bare SQLite and against its peers.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// A tenth of the messages: for a first look, not for a claim.
    #[arg(long)]
    quick: bool,
    /// Leave out the other queues, which need the network on the first run.
    #[arg(long)]
    pub(crate) skip_peers: bool,
    /// Messages in the batched measurements; the slower ones take a fixed share of it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(BATCH as u64..))]
    messages: Option<u64>,
    /// For ourselves: fill the database in this folder, or look at it.
    #[arg(long, hide = true, value_name = "N")]
    pub(crate) fill: Option<u64>,
    #[arg(long, hide = true, value_name = "N", conflicts_with = "fill")]
    pub(crate) look: Option<u64>,
    #[arg(hide = true)]
    pub(crate) folder: Option<PathBuf>,
}

impl Options {
    pub(crate) fn sizes(&self) -> Sizes {
        let default = if self.quick { QUICK_MESSAGES } else { DEFAULT_MESSAGES };
        let messages = self.messages.unwrap_or(default);
        let backlog = if self.quick { 100_000 } else { 1_000_000 };
        Sizes { messages, backlog, rounds: 3 }
    }
}

/// How many messages and repetitions each measurement gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// For what commits a batch at a time.
    pub(crate) messages: u64,
    /// How many wait in a long backlog.
    pub(crate) backlog: u64,
    /// The median counts.
    pub(crate) rounds: u32,
}

impl Sizes {
    /// A fixed share of the messages, so that slower measurements take about as long.
    pub(crate) fn share(&self, divisor: u64) -> u64 {
        (self.messages / divisor).max(BATCH.into())
    }
}

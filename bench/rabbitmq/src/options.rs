//! How much to measure.

use std::path::PathBuf;

use clap::Parser;

use crate::bare::WINDOW;

const DEFAULT_MESSAGES: u64 = 100_000;

/// Measures queues on RabbitMQ beside bare lapin programs and beside peers.
///
/// The broker is the one behind BEZOAR_TEST_AMQP; `cargo xtask bench rabbitmq` starts one.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Where the broker is.
    #[arg(long, env = "BEZOAR_TEST_AMQP", hide_env_values = true)]
    pub(crate) broker: String,
    /// Where its management API is; without it, checking queues is not measured.
    #[arg(long, env = "BEZOAR_TEST_AMQP_MANAGEMENT", hide_env_values = true)]
    pub(crate) management: Option<String>,
    /// A tenth of the messages: for a first look, not for a claim.
    #[arg(long)]
    quick: bool,
    /// Leave out the other programs, which need the network on the first run.
    #[arg(long)]
    pub(crate) skip_peers: bool,
    /// Leave out 100,000 messages with random delays, which take more than a minute.
    #[arg(long)]
    pub(crate) skip_delays: bool,
    /// The program `bezoar`, built for release: also measures its gateway from a queue to an HTTP endpoint.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) gateway: Option<PathBuf>,
    /// Messages that are published and consumed; what is slower takes a fixed share of it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(WINDOW as u64..))]
    messages: Option<u64>,
    /// How often each is measured; the median of the ratios counts.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Only one measurement, and nothing of it is needed.
    #[arg(long, value_enum)]
    pub(crate) only: Option<Only>,
}

/// What can be measured by itself, to look into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Only {
    /// Publishing.
    Publish,
    /// Consuming.
    Consume,
    /// Failing.
    Fail,
    /// From a queue to an HTTP endpoint.
    Http,
    /// At a thousand messages a second.
    Paced,
    /// Random delays.
    Delays,
    /// Checking queues.
    Check,
}

impl Options {
    pub(crate) fn wants(&self, what: Only) -> bool {
        self.only.is_none_or(|only| only == what)
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let divisor = if self.quick { 10 } else { 1 };
        Sizes {
            messages: self.messages.unwrap_or(DEFAULT_MESSAGES / divisor),
            paced: 5_000 / divisor,
            delayed: 100_000 / divisor,
        }
    }
}

/// How many messages each measurement gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) messages: u64,
    /// At a thousand a second.
    pub(crate) paced: u64,
    /// With random delays.
    pub(crate) delayed: u64,
}

impl Sizes {
    /// A fixed share of the messages, so that slower measurements take about as long.
    pub(crate) fn share(&self, divisor: u64) -> u64 {
        (self.messages / divisor).max(100)
    }
}

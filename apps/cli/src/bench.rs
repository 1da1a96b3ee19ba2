//! `bezoar bench`: load-tests a gateway end to end.
//!
//! | file | contents |
//! | --- | --- |
//! | `load.rs` | sends messages over keep-alive connections, as fast as they are accepted or at a rate |
//! | `stamp.rs` | the message id, which encodes when the message was sent |
//! | `arrivals.rs` | the endpoint that decodes it |
//! | `target.rs` | the gateway under test, and its queue counts |
//! | `run.rs` | warm-up, load, and the wait until everything is delivered |
//! | `latency.rs`, `report.rs`, `progress.rs` | percentiles, the report, the progress bar |

mod arrivals;
mod latency;
mod load;
mod progress;
mod report;
mod run;
mod stamp;
mod target;

use std::{net::SocketAddr, num::NonZeroU32, time::Duration};

use anyhow::Result;
use bezoar::{QueueName, Shutdown};
use bezoar_gateway::config::human::size;

use self::target::BenchTarget;
use crate::{client::Connection, complete, output};

/// The largest body that a gateway accepts without configuration.
const SIZE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// What is tested, and how it is measured.
const EXPLANATION: &str = "\
Without --url or BEZOAR_URL, bench starts a temporary gateway with a store on disk and an endpoint in the same \
process; all of them share this machine. With --url it tests that gateway, which keeps any messages that it cannot deliver.

Acceptance time runs from sending a message to the response that confirms it is stored. Arrival time runs from sending it \
to its arrival at the endpoint; it is measured only if the endpoint runs in this process, that is, with the temporary \
gateway or with --listen. Otherwise deliveries are counted by watching the queue drain, which includes other traffic.

Without --rate, each connection sends its next message as soon as the previous one is accepted. This measures \
throughput; arrival time is then mostly queueing. With --rate, times run from the moment a message was due, even if it was \
sent later.";

#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct Arguments {
    /// Number of messages to send
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: Option<u64>,
    /// How long to send, in seconds [default: 10]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Size of each body
    #[arg(long, default_value = "1KiB", value_parser = size_bytes)]
    size: usize,
    /// Number of concurrent connections; also the concurrency of the temporary gateway's route
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    connections: u32,
    /// Maximum number of messages per second [default: unlimited]
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU32>,
    /// Queue to send to
    #[arg(long, default_value = "bench", add = complete::queues())]
    queue: QueueName,
    /// Receive the route's deliveries on this address, to measure arrival times
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

fn size_bytes(text: &str) -> Result<usize, String> {
    let bytes = size::parse(text).map_err(|invalid| invalid.remedy)?;
    let fits = (1..=SIZE_LIMIT_BYTES).contains(&bytes).then_some(bytes);
    fits.and_then(|bytes| bytes.try_into().ok()).ok_or("must be between 1B and 16MiB".to_owned())
}

/// When to stop sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendLimit {
    Messages(u64),
    Time(Duration),
}

impl Arguments {
    fn limit(&self) -> SendLimit {
        match self.messages {
            Some(messages) => SendLimit::Messages(messages),
            None => SendLimit::Time(Duration::from_secs(self.seconds.unwrap_or(10))),
        }
    }
}

pub(crate) async fn run(arguments: Arguments, connection: &Connection) -> Result<()> {
    let target = BenchTarget::find(&arguments, connection).await?;
    let stop = Shutdown::default();
    // The first Ctrl-C ends the load and prints the report, the second one aborts.
    let report = tokio::select! {
        report = run::run(&arguments, &target, &stop) => report,
        _ = async { tokio::join!(stop.listen(), stop.aborting()) } => Err(anyhow::anyhow!("stopped")),
    };
    target.end().await?;
    let report = report?;
    let text = if arguments.json { report.to_json() } else { report.to_string() };
    output::print(&format!("{text}\n")).map(drop)
}

//! `bezoar bench`: loads a gateway end to end.
//!
//! | file | what |
//! | --- | --- |
//! | `load.rs` | sends messages over connections that are kept, as fast as they are accepted or at a rate |
//! | `stamp.rs` | the id of a message, which says when it was sent |
//! | `arrivals.rs` | the endpoint that reads it |
//! | `target.rs` | the gateway that is loaded, and how much waits there |
//! | `run.rs` | a warm-up, the load, and the wait until all is delivered |
//! | `latency.rs`, `report.rs`, `progress.rs` | percentiles, and how everything is told |

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
use crate::{client::Connection, output};

/// The largest body that a gateway accepts without configuration.
const SIZE_LIMIT_BYTES: u64 = 16 * 1024 * 1024;

/// What is loaded, and what is measured how.
const EXPLANATION: &str = "\
Without --url and BEZOAR_URL a gateway of its own is loaded, with a store on disk in a temporary folder and an endpoint \
in the same process; all share the machine. With them that gateway is loaded, and keeps what it cannot deliver.

Acceptance is measured from sending a message to the answer that it is stored. Arrival is measured from sending it to \
its arrival at the endpoint, where that is in this process: for a gateway of its own, or with --listen. Otherwise \
deliveries are only counted, by how the queue empties, and other traffic in it would be counted too.

Without --rate each connection sends its next message when the last one is accepted: this shows the throughput, and \
the time to arrival is mostly spent waiting behind others. With --rate times count from when a message was due, even \
if it could be sent only later.";

#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXPLANATION)]
pub(crate) struct Arguments {
    /// How many messages to send
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    messages: Option<u64>,
    /// For how long to send [default: 10]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// The size of each body
    #[arg(long, default_value = "1KiB", value_parser = size_bytes)]
    size: usize,
    /// How many connections send at the same time; the gateway of its own delivers as many at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    connections: u32,
    /// How many messages to send each second, at most [default: as many as are accepted]
    #[arg(long, value_name = "N")]
    rate: Option<NonZeroU32>,
    /// The queue to send to
    #[arg(long, default_value = "bench")]
    queue: QueueName,
    /// Listen here for what the queue's route delivers, to measure when it arrives
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// JSON instead of words
    #[arg(long)]
    json: bool,
}

fn size_bytes(text: &str) -> Result<usize, String> {
    let bytes = size::parse(text).map_err(|invalid| invalid.remedy)?;
    let fits = (1..=SIZE_LIMIT_BYTES).contains(&bytes).then_some(bytes);
    fits.and_then(|bytes| bytes.try_into().ok()).ok_or("from 1B to 16MiB".to_owned())
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
    // The first Ctrl-C ends the load and reports, the second one ends it all.
    let report = tokio::select! {
        report = run::run(&arguments, &target, &stop) => report,
        _ = async { tokio::join!(stop.listen(), stop.aborting()) } => Err(anyhow::anyhow!("stopped")),
    };
    target.end().await?;
    let report = report?;
    let text = if arguments.json { report.to_json() } else { report.to_string() };
    output::print(&format!("{text}\n")).map(drop)
}

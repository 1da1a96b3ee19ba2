//! How long `bezoar check` asks a broker that has many other queues.

use std::time::Duration;

use anyhow::{Result, ensure};
use bezoar::rabbitmq::{Options, RabbitTransport};
use bezoar::{QueueAdmin as _, QueueName, Severity};
use tokio::time::Instant;

use crate::broker::Bare;

/// Queues of a configuration.
const CHECKED: usize = 20;
/// Queues of other programs.
const OTHERS: usize = 1_000;

/// Checks the queues of a configuration, among those of other programs.
pub(crate) async fn measure(url: &str, management_url: &str) -> Result<Duration> {
    let options =
        Options { management_url: Some(management_url.into()), ..Options::from_url(url)? };
    let transport = RabbitTransport::open(options)?;
    let others: Vec<_> = (0..OTHERS).map(|number| format!("check-other-{number}")).collect();
    let checked: Vec<_> = (0..CHECKED).map(|number| format!("check-{number}")).collect();
    let bare = Bare::connect(url).await?;
    bare.declare_classic(&others).await?;
    let queues = checked.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>()?;
    for queue in &queues {
        transport.provision(queue).await?;
    }
    let started = Instant::now();
    let found = transport.validate_all(&queues).await?;
    let took = started.elapsed();
    let found = found.queues.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    ensure!(found.iter().all(|it| it.severity < Severity::Error), "{found:?}");
    transport.close().await;
    let ours =
        checked.iter().flat_map(|it| ["", ".dead", ".quarantine"].map(|end| format!("{it}{end}")));
    let all: Vec<_> = others.into_iter().chain(ours).collect();
    bare.delete(&all.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    bare.close().await;
    Ok(took)
}

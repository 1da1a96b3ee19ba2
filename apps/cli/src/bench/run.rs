//! A warm-up, the load, and the wait until everything is delivered.

use std::time::Duration;

use anyhow::Result;
use bezoar::Shutdown;
use tokio::time::{Instant, sleep};

use super::{
    Arguments, SendLimit,
    load::{Load, Sent},
    progress,
    report::BenchReport,
    target::{BenchTarget, QueueCounts},
};
use crate::output;

/// How often to check whether the queue is empty.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How long to wait without any delivery before giving up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the load test against the target.
pub(super) async fn run(
    arguments: &Arguments,
    target: &BenchTarget,
    stop: &Shutdown,
) -> Result<BenchReport> {
    if !target.queue_counts().await?.has_route {
        let queue = &target.queue;
        output::say(&format!("queue {queue} has no route: messages are accepted and wait"));
    }
    round(arguments, target, warm_up(arguments.limit()), stop).await?;
    round(arguments, target, arguments.limit(), stop).await
}

/// A tenth of the load, within bounds: enough to open connections and warm caches.
fn warm_up(limit: SendLimit) -> SendLimit {
    match limit {
        SendLimit::Messages(messages) => SendLimit::Messages((messages / 10).clamp(1, 1_000)),
        SendLimit::Time(time) => {
            SendLimit::Time((time / 10).clamp(Duration::from_millis(200), Duration::from_secs(2)))
        }
    }
}

/// What was not delivered in a round.
struct Remaining {
    waiting: u64,
    dead: u64,
    /// When the number waiting last went down.
    since: Instant,
}

async fn round(
    arguments: &Arguments,
    target: &BenchTarget,
    limit: SendLimit,
    stop: &Shutdown,
) -> Result<BenchReport> {
    let before = target.queue_counts().await?;
    let load = Load::new(arguments, target, limit, stop);
    let loading = async {
        let sent = load.clone().send(arguments.connections).await?;
        anyhow::Ok((sent, remaining(target, before).await?))
    };
    let (sent, remaining) = tokio::select! {
        done = loading => done?,
        never = progress::show(&load, target) => match never {},
    };
    Ok(report(arguments, target, load.started, &sent, &remaining))
}

/// Waits until no more messages wait than `before`, as long as their number goes down.
async fn remaining(target: &BenchTarget, before: QueueCounts) -> Result<Remaining> {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    loop {
        let now = target.queue_counts().await?;
        if now.waiting < least {
            (least, since) = (now.waiting, Instant::now());
        }
        let waiting = now.waiting.saturating_sub(before.waiting);
        if waiting == 0 || !now.has_route || since.elapsed() > PATIENCE {
            return Ok(Remaining { waiting, dead: now.dead.saturating_sub(before.dead), since });
        }
        sleep(ASK_EVERY).await;
    }
}

fn report(
    arguments: &Arguments,
    target: &BenchTarget,
    started: Instant,
    sent: &Sent,
    remaining: &Remaining,
) -> BenchReport {
    let arrived = target.arrivals.as_ref().map(|arrivals| arrivals.so_far());
    let (delivered, last) = match &arrived {
        Some(run) => (run.count(), run.last),
        None => (
            sent.accepted.saturating_sub(remaining.waiting + remaining.dead),
            Some(remaining.since),
        ),
    };
    BenchReport {
        gateway: target.name(),
        queue: target.queue.to_string(),
        size_bytes: arguments.size,
        connections: arguments.connections,
        rate: arguments.rate,
        accepted: sent.accepted,
        refused: sent.refused,
        delivered,
        repeated: arrived.as_ref().map(|run| run.repeated),
        waiting: remaining.waiting,
        dead: remaining.dead,
        accepted_per_second: per_second(sent.accepted, started, sent.last),
        delivered_per_second: per_second(delivered, started, last),
        acceptance_ms: sent.latency.percentiles(),
        arrival_ms: arrived.and_then(|run| run.latency.percentiles()),
    }
}

fn per_second(count: u64, started: Instant, last: Option<Instant>) -> f64 {
    let took = last.map_or(Duration::ZERO, |last| last.duration_since(started));
    if took.is_zero() { 0.0 } else { count as f64 / took.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_a_tenth_within_bounds() {
        let time = |millis| SendLimit::Time(Duration::from_millis(millis));
        for (limit, expected) in [
            (SendLimit::Messages(1), SendLimit::Messages(1)),
            (SendLimit::Messages(500), SendLimit::Messages(50)),
            (SendLimit::Messages(1_000_000), SendLimit::Messages(1_000)),
            (time(1_000), time(200)),
            (time(10_000), time(1_000)),
            (time(600_000), time(2_000)),
        ] {
            assert_eq!(warm_up(limit), expected);
        }
    }
}

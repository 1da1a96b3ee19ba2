//! What is needed, beside what was measured.

use std::time::Duration;

use anyhow::Result;
use bench_support::{Percentiles, Report, Rounds};

use crate::{
    bare,
    delays::Seen,
    gateway, http,
    options::{Only, Options},
    peers::{Mode, Peers},
    product,
};

/// Ours beside the limit.
pub(crate) fn rates(report: &mut Report, rounds: &Rounds, options: &Options) -> Result<()> {
    let all = [
        (Only::Publish, product::PUBLISH, bare::PUBLISH, 0.95),
        (Only::Consume, product::CONSUME, bare::CONSUME, 0.9),
        (Only::Fail, product::FAIL, bare::FAIL, 0.9),
    ];
    for (_, ours, limit, needed) in all.into_iter().filter(|(what, ..)| options.wants(*what)) {
        report.rate(&rounds.median(limit)?);
        report.compare_rounds(rounds, [ours, limit], Some(needed))?;
    }
    if options.wants(Only::Http) {
        report.rate(&rounds.median(http::BARE)?);
    }
    if options.wants(Only::Http) && options.gateway.is_some() {
        report.compare_rounds(rounds, [gateway::THROUGH, http::BARE], Some(0.85))?;
    }
    Ok(())
}

/// Latencies at a thousand messages a second, of each round.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// From publishing to the handler: ours, and the bare program's.
    pub(crate) handled: Vec<[Percentiles; 2]>,
    /// From a failure to the dead-letter queue: by publishing, and by rejecting.
    pub(crate) set_aside: Vec<[Percentiles; 2]>,
}

impl Times {
    pub(crate) fn report(&self, report: &mut Report) {
        if self.handled.is_empty() {
            return;
        }
        for (name, share, most) in [("median", 0.5, 1.2), ("p99", 0.99, 1.5)] {
            let ratio = |[ours, bare]: &[Percentiles; 2]| ours.at(share) / bare.at(share);
            let what = format!("publish to handler at 1,000 a second, {name} / bare program's");
            report.at_most(&what, median(self.handled.iter().map(ratio)), most);
            report.spread(&what, self.handled.iter().map(ratio).collect());
        }
        for (at, mode) in ["publish", "reject"].into_iter().enumerate() {
            for (name, share) in [("p99", 0.99), ("longest", 1.0)] {
                let what = format!("failure to dead-letter queue by {mode}, {name}, ms");
                let times = self.set_aside.iter().map(|of| of[at].at(share));
                report.at_most(&what, times.fold(0.0, f64::max), 1_000.0);
            }
        }
        for [ours, bare] in &self.handled {
            report.note(format!("publish to handler: {ours}; bare program: {bare}"));
        }
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Ours beside each peer.
pub(crate) fn peers(report: &mut Report, rounds: &Rounds, peers: &Peers) -> Result<()> {
    for peer in peers.shown() {
        match peer.settings {
            Ok(settings) => {
                let ours = match peer.mode {
                    Mode::Consume => product::CONSUME,
                    Mode::Fail => product::FAIL,
                    Mode::Http => gateway::THROUGH,
                };
                report.rate(&rounds.median(peer.name)?);
                if rounds.median(ours).is_ok() {
                    report.compare_rounds(rounds, [ours, peer.name], Some(peer.needed))?;
                }
                report.note(format!("{}: {settings}", peer.name));
            }
            Err(reason) => report.unavailable(peer.name, reason),
        }
    }
    Ok(())
}

/// Checking queues.
pub(crate) fn check(report: &mut Report, took: Duration) {
    report.at_most("check 20 queues on a broker with 1,000 others, s", took.as_secs_f64(), 2.0);
}

/// Random delays.
pub(crate) fn delays(report: &mut Report, seen: &Seen) {
    report.at_most("random delays up to 60 s: how many early", seen.early as f64, 0.0);
    let late = (1.0 - seen.in_time) * 100.0;
    report.at_most("random delays up to 60 s: later than 250 ms and 5 %, %", late, 1.0);
    report.note(format!("random delays: the latest was {:.0} ms late", seen.latest));
}

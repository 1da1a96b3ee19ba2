//! The endpoint: accepts every message and records how long it was in transit.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{latency::Latency, stamp::Stamp};
use crate::local_endpoint::EndpointResponse;

/// The arrivals of the current run.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// When this program started to send; stamps are relative to it.
    epoch: Instant,
    run: Mutex<RunArrivals>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RunArrivals {
    id: u64,
    seen: SeenNumbers,
    /// Deliveries of messages that had arrived before.
    pub(super) repeated: u64,
    pub(super) latency: Latency,
    pub(super) last: Option<Instant>,
}

impl Arrivals {
    pub(super) fn new(epoch: Instant) -> Arc<Self> {
        Arc::new(Self { epoch, run: Mutex::default() })
    }

    /// Starts counting for another run.
    pub(super) fn watch(&self, run: u64) {
        *self.run() = RunArrivals { id: run, ..RunArrivals::default() };
    }

    /// How many messages arrived so far.
    pub(super) fn count(&self) -> u64 {
        self.run().count()
    }

    /// A snapshot of the run.
    pub(super) fn so_far(&self) -> RunArrivals {
        self.run().clone()
    }

    /// Answers 200 to every request.
    pub(super) async fn take(self: Arc<Self>, request: Request<Incoming>) -> EndpointResponse {
        let now = Instant::now();
        let id = request.headers().get("bezoar-id").and_then(|value| value.to_str().ok());
        if let Some(stamp) = id.and_then(Stamp::read) {
            self.note(stamp, now);
        }
        // Read the body to its end, so that the connection can be reused.
        let mut body = request.into_body();
        while let Some(Ok(_)) = body.frame().await {}
        Response::default()
    }

    fn note(&self, stamp: Stamp, now: Instant) {
        let due = self.epoch + Duration::from_micros(stamp.micros);
        let mut run = self.run();
        if run.id != stamp.run {
            return;
        }
        if run.seen.add(stamp.number) {
            run.latency.record(now.duration_since(due));
            run.last = Some(now);
        } else {
            run.repeated += 1;
        }
    }

    fn run(&self) -> MutexGuard<'_, RunArrivals> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunArrivals {
    /// How many messages arrived, each counted once.
    pub(super) fn count(&self) -> u64 {
        self.seen.count
    }
}

/// A set of numbers that arrive nearly in order: only those beyond the first gap take memory.
#[derive(Debug, Clone, Default)]
struct SeenNumbers {
    all_below: u64,
    beyond: BTreeSet<u64>,
    count: u64,
}

impl SeenNumbers {
    /// `false` if it was in the set.
    fn add(&mut self, number: u64) -> bool {
        if number < self.all_below || !self.beyond.insert(number) {
            return false;
        }
        while self.beyond.remove(&self.all_below) {
            self.all_below += 1;
        }
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_seen_once_in_any_order() {
        let mut seen = SeenNumbers::default();
        let new: Vec<_> = [1, 0, 1, 0, 3, 2, 3, 7].into_iter().map(|it| seen.add(it)).collect();
        assert_eq!(new, [true, true, false, false, true, true, false, true]);
        assert_eq!((seen.count, seen.all_below, seen.beyond.len()), (5, 4, 1));
    }

    #[test]
    fn arrivals_of_another_run_are_not_counted() {
        let epoch = Instant::now();
        let arrivals = Arrivals::new(epoch);
        arrivals.watch(7);
        for (run, number) in [(7, 0), (8, 1), (7, 0), (7, 1)] {
            arrivals.note(Stamp { run, number, micros: 0 }, epoch + Duration::from_millis(5));
        }
        let run = arrivals.so_far();
        assert_eq!((arrivals.count(), run.repeated), (2, 1));
        assert_eq!(run.latency.percentiles().unwrap().p50.round(), 5.0);
        assert_eq!(run.last, Some(epoch + Duration::from_millis(5)));
    }
}

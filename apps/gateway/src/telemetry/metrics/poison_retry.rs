//! The metrics of one `[[poison_retry]]`.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bezoar::{PoisonRun, Timestamp};
use opentelemetry::KeyValue;

use super::{
    MetricsShared,
    named::{Named, OTHER},
};

/// The results of a run.
const OK: &str = "ok";
const FAILED: &str = "failed";

/// The metrics of the processor of one poison queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PoisonRetryMetrics {
    pub(super) shared: Arc<MetricsShared>,
    pub(super) series: Arc<PoisonRetrySeries>,
}

impl PoisonRetryMetrics {
    /// Records a run that ended `at`: what it did, or what it had done when it could not proceed.
    pub fn ran(&self, run: Result<&PoisonRun, &PoisonRun>, took: Duration, at: Timestamp) {
        let Self { shared, series } = self;
        let (counter, counts, labels) = match run {
            Ok(counts) => (&series.completed, counts, &series.labels_ok),
            Err(so_far) => (&series.failed, so_far, &series.labels_failed),
        };
        shared.histograms.poison_retrying.record(took.as_secs_f64(), labels);
        counter.fetch_add(1, Relaxed);
        series.delivered.fetch_add(counts.delivered, Relaxed);
        series.retried.fetch_add(counts.retried, Relaxed);
        series.dead_lettered.fetch_add(counts.dead_lettered, Relaxed);
        series.left.fetch_add(counts.left, Relaxed);
        series.show(at, run.is_ok());
    }
}

/// When the last run ended, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastRun {
    pub(super) at: Timestamp,
    pub(super) is_ok: bool,
    /// When the last run ended that could proceed; `None` before the first one.
    pub(super) succeeded_at: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct PoisonRetrySeries {
    pub(super) label: KeyValue,
    labels_ok: [KeyValue; 2],
    labels_failed: [KeyValue; 2],
    completed: AtomicU64,
    failed: AtomicU64,
    delivered: AtomicU64,
    retried: AtomicU64,
    dead_lettered: AtomicU64,
    left: AtomicU64,
    last: Mutex<Option<LastRun>>,
    is_other: bool,
}

impl PoisonRetrySeries {
    /// Runs by result.
    pub(super) fn runs(&self) -> [(&'static str, u64); 2] {
        [(OK, self.completed.load(Relaxed)), (FAILED, self.failed.load(Relaxed))]
    }

    /// Messages by outcome.
    pub(super) fn messages(&self) -> [(&'static str, u64); 4] {
        [
            ("delivered", self.delivered.load(Relaxed)),
            ("retried", self.retried.load(Relaxed)),
            ("dead_lettered", self.dead_lettered.load(Relaxed)),
            ("left", self.left.load(Relaxed)),
        ]
    }

    /// The last run; `None` before the first one.
    pub(super) fn last(&self) -> Option<LastRun> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last run of several queues under one name would be wrong, so `other` has none.
    fn show(&self, at: Timestamp, is_ok: bool) {
        if self.is_other {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.and_then(|last| last.succeeded_at);
        let succeeded_at = if is_ok { Some(at) } else { before };
        *last = Some(LastRun { at, is_ok, succeeded_at });
    }
}

impl Named for PoisonRetrySeries {
    fn new(name: &str) -> Self {
        let label = KeyValue::new("queue", name.to_owned());
        let labels = |result| [label.clone(), KeyValue::new("result", result)];
        Self {
            labels_ok: labels(OK),
            labels_failed: labels(FAILED),
            label,
            completed: AtomicU64::default(),
            failed: AtomicU64::default(),
            delivered: AtomicU64::default(),
            retried: AtomicU64::default(),
            dead_lettered: AtomicU64::default(),
            left: AtomicU64::default(),
            last: Mutex::default(),
            is_other: name == OTHER,
        }
    }
}

//! The metrics of one queue.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use opentelemetry::KeyValue;

use super::{
    MetricsShared, QueueGauges,
    named::{Named, OTHER},
    reasons::Reasons,
};

/// The metrics of one queue. Cheap to clone.
#[derive(Debug, Clone)]
pub struct QueueMetrics {
    pub(super) shared: Arc<MetricsShared>,
    pub(super) series: Arc<QueueSeries>,
}

impl QueueMetrics {
    /// Records a request that stored `count` messages.
    pub fn accepted(&self, count: u64, took: Duration) {
        self.series.accepted.fetch_add(count, Relaxed);
        self.shared.histograms.accepting.record(took.as_secs_f64(), &[]);
    }

    /// Records refused messages; the reason is one of our codes, such as `too-large`.
    pub fn refused(&self, count: u64, reason: &'static str) {
        self.series.refused.add(reason, count, &self.shared.series.refusals);
    }
}

#[derive(Debug)]
pub(super) struct QueueSeries {
    pub(super) label: KeyValue,
    pub(super) accepted: AtomicU64,
    pub(super) refused: Reasons,
    figures: Mutex<Option<QueueGauges>>,
    is_other: bool,
}

impl QueueSeries {
    /// Gauges of several queues under one name would be wrong, so `other` has none.
    pub(super) fn show(&self, figures: Option<QueueGauges>) {
        if !self.is_other {
            *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        }
    }

    pub(super) fn figures(&self) -> Option<QueueGauges> {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Named for QueueSeries {
    fn new(name: &str) -> Self {
        Self {
            label: KeyValue::new("queue", name.to_owned()),
            accepted: AtomicU64::default(),
            refused: Reasons::default(),
            figures: Mutex::default(),
            is_other: name == OTHER,
        }
    }
}

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
    /// So many messages were stored by one request, which took so long.
    pub fn accepted(&self, count: u64, took: Duration) {
        self.series.accepted.fetch_add(count, Relaxed);
        self.shared.histograms.accepting.record(took.as_secs_f64(), &[]);
    }

    /// So many messages were sent away, for a reason that is a word of ours: `too-large`.
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
    /// Figures of several queues under one name would be wrong, so the others have none.
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

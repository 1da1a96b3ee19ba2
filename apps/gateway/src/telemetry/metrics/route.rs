//! The metrics of one route.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed},
};

use opentelemetry::KeyValue;

use super::{
    MetricsShared, RouteObserver,
    measured_try::RESULTS,
    named::{Named, OTHER},
    reasons::Reasons,
};

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Messages are delivered.
    Closed = 0,
    /// A few messages probe the endpoint.
    HalfOpen = 1,
    /// No messages are delivered.
    Open = 2,
}

/// The metrics of one route. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RouteMetrics {
    pub(super) shared: Arc<MetricsShared>,
    pub(super) series: Arc<RouteSeries>,
}

impl RouteMetrics {
    /// An observer that counts the worker's events.
    pub fn observer(&self) -> Arc<RouteObserver> {
        Arc::new(RouteObserver(self.clone()))
    }

    /// How many tries are in progress.
    pub fn in_flight(&self) -> u64 {
        self.series.in_flight.load(Relaxed).try_into().unwrap_or_default()
    }

    /// Sets whether it is paused.
    pub fn set_paused(&self, paused: bool) {
        self.series.paused.store(u8::from(paused), Relaxed);
    }

    /// Sets the state of its breaker.
    pub fn set_breaker(&self, state: BreakerState) {
        self.series.breaker.store(state as u8, Relaxed);
    }
}

/// Marks a state that was not set yet.
const UNKNOWN: u8 = u8::MAX;

#[derive(Debug)]
pub(super) struct RouteSeries {
    pub(super) label: KeyValue,
    pub(super) delivered: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) uncounted: AtomicU64,
    pub(super) suspected: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) lease_lost: AtomicU64,
    pub(super) not_settled: AtomicU64,
    pub(super) interrupted: AtomicU64,
    pub(super) dead_lettered: Reasons,
    pub(super) in_flight: AtomicI64,
    paused: AtomicU8,
    breaker: AtomicU8,
    pub(super) by_result: [[KeyValue; 2]; 5],
    is_other: bool,
}

impl RouteSeries {
    pub(super) fn paused(&self) -> Option<u8> {
        self.known(&self.paused)
    }

    pub(super) fn breaker(&self) -> Option<u8> {
        self.known(&self.breaker)
    }

    /// States of several routes under one name would be wrong, so `other` has none.
    fn known(&self, state: &AtomicU8) -> Option<u8> {
        let state = state.load(Relaxed);
        (state != UNKNOWN && !self.is_other).then_some(state)
    }
}

impl Named for RouteSeries {
    fn new(name: &str) -> Self {
        let label = KeyValue::new("route", name.to_owned());
        // Sorted by key, the order that the SDK looks up fastest.
        let by_result = RESULTS.map(|result| [KeyValue::new("outcome", result), label.clone()]);
        Self {
            label,
            by_result,
            delivered: AtomicU64::default(),
            retried: AtomicU64::default(),
            uncounted: AtomicU64::default(),
            suspected: AtomicU64::default(),
            released: AtomicU64::default(),
            lease_lost: AtomicU64::default(),
            not_settled: AtomicU64::default(),
            interrupted: AtomicU64::default(),
            dead_lettered: Reasons::default(),
            in_flight: AtomicI64::default(),
            paused: AtomicU8::new(UNKNOWN),
            breaker: AtomicU8::new(UNKNOWN),
            is_other: name == OTHER,
        }
    }
}

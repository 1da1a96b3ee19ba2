//! The instruments: their names, units and data sources.
//!
//! Names follow OpenTelemetry; for Prometheus dots become underscores, and unit and `_total` are appended:
//! `bezoar.delivery.duration` is `bezoar_delivery_duration_seconds`.

mod poison_retries;
mod queues;
mod routes;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use jiff::Timestamp;
use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Histogram, Meter, MeterProvider},
};
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};

use super::{
    PoisonRetrySeries, QueueSeries, RouteSeries,
    named::{ByName, NAME_LIMIT},
    reasons::{ReasonPairs, Reasons},
    refused_requests::RefusedRequests,
};

/// Everything that is counted.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) queues: ByName<QueueSeries>,
    pub(super) routes: ByName<RouteSeries>,
    pub(super) poison_retries: ByName<PoisonRetrySeries>,
    pub(super) refusals: ReasonPairs,
    pub(super) deaths: ReasonPairs,
    pub(super) refused_requests: RefusedRequests,
}

/// Everything that is measured.
#[derive(Debug)]
pub(super) struct Histograms {
    /// The duration of requests that send messages.
    pub(super) accepting: Histogram<f64>,
    /// The time from acceptance to the first attempt.
    pub(super) reaching: Histogram<f64>,
    /// The duration of a try.
    pub(super) delivering: Histogram<f64>,
    /// The duration of a run of a poison-queue retry processor.
    pub(super) poison_retrying: Histogram<f64>,
}

const MESSAGES_IN_QUEUE: &str = "bezoar.queue.messages";
const POISON_RETRY_RUNS: &str = "bezoar.poison_retry.runs";
const POISON_RETRY_MESSAGES: &str = "bezoar.poison_retry.messages";
const POISON_RETRY_DURATION: &str = "bezoar.poison_retry.duration";
const DELIVERY_DURATION: &str = "bezoar.delivery.duration";

/// Creates all instruments, which read from `series`.
pub(super) fn build(
    provider: &SdkMeterProvider,
    series: &Arc<Series>,
    started: Timestamp,
) -> Histograms {
    let meter = provider.meter("bezoar");
    process(&meter, started);
    requests(&meter, series);
    queues::counters(&meter, series);
    queues::gauges(&meter, series);
    routes::counters(&meter, series);
    routes::gauges(&meter, series);
    poison_retries::counters(&meter, series);
    poison_retries::gauges(&meter, series);
    histograms(&meter)
}

/// Raises the series limit of instruments with up to four series per name; the SDK's default is 2,000 series.
pub(super) fn room(instrument: &Instrument) -> Option<Stream> {
    let several = [
        MESSAGES_IN_QUEUE,
        DELIVERY_DURATION,
        POISON_RETRY_RUNS,
        POISON_RETRY_MESSAGES,
        POISON_RETRY_DURATION,
    ];
    let several = several.contains(&instrument.name());
    let limit = Stream::builder().with_cardinality_limit(4 * (NAME_LIMIT + 1));
    several.then(|| limit.build().ok()).flatten()
}

/// The sizes of a store's files.
pub(super) fn store(
    provider: &SdkMeterProvider,
    sizes: impl Fn() -> Vec<(&'static str, u64)> + Send + Sync + 'static,
) {
    let _ = provider
        .meter("bezoar")
        .u64_observable_gauge("bezoar.store.size")
        .with_unit("By")
        .with_description("Size of the store's files: the database and its write-ahead log")
        .with_callback(move |gauge| {
            for (file, bytes) in sizes() {
                gauge.observe(bytes, &[KeyValue::new("file", file)]);
            }
        })
        .build();
}

/// The lines that the log lost.
pub(super) fn log(provider: &SdkMeterProvider, dropped: Arc<AtomicU64>) {
    let _ = provider
        .meter("bezoar")
        .u64_observable_counter("bezoar.log.dropped")
        .with_description("Log lines dropped because stderr was not read or not writable")
        .with_callback(move |counter| counter.observe(dropped.load(Relaxed), &[]))
        .build();
}

fn process(meter: &Meter, started: Timestamp) {
    let info = [KeyValue::new("version", env!("CARGO_PKG_VERSION"))];
    let _ = meter
        .u64_observable_gauge("bezoar.build.info")
        .with_description("Always 1; the label shows the running version")
        .with_callback(move |gauge| gauge.observe(1, &info))
        .build();
    let _ = meter
        .f64_observable_gauge("bezoar.process.start_time")
        .with_unit("s")
        .with_description("When the program started, in seconds since 1970")
        .with_callback(move |gauge| gauge.observe(started.as_millisecond() as f64 / 1e3, &[]))
        .build();
}

fn requests(meter: &Meter, series: &Arc<Series>) {
    let all = series.clone();
    let _ = meter
        .u64_observable_counter("bezoar.http.refused")
        .with_description("Requests refused with 401, 403, 413 or 503, by reason")
        .with_callback(move |counter| {
            all.refused_requests.each(|status, reason, count| {
                let status = KeyValue::new("status", i64::from(status));
                counter.observe(count, &[status, KeyValue::new("reason", reason)]);
            });
        })
        .build();
}

fn histograms(meter: &Meter) -> Histograms {
    let seconds = |name: &'static str, description: &'static str, longer: &[f64]| {
        let boundaries = [&QUICK, longer].concat();
        let builder = meter.f64_histogram(name).with_unit("s").with_description(description);
        builder.with_boundaries(boundaries).build()
    };
    let minutes = [30.0, 60.0, 300.0];
    let hours = [30.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];
    Histograms {
        accepting: seconds(
            "bezoar.accept.duration",
            "Time to store the messages of a request",
            &[],
        ),
        reaching: seconds(
            "bezoar.accept_to_endpoint",
            "Time from acceptance to the first attempt",
            &hours,
        ),
        delivering: seconds(DELIVERY_DURATION, "Duration of a try, by outcome", &minutes),
        poison_retrying: seconds(
            POISON_RETRY_DURATION,
            "Duration of a run of the poison-queue retry processor, by result",
            &minutes,
        ),
    }
}

/// From half a millisecond to ten seconds.
const QUICK: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

fn count(counter: &dyn AsyncInstrument<u64>, value: &AtomicU64, label: &KeyValue) {
    counter.observe(value.load(Relaxed), std::slice::from_ref(label));
}

fn count_reasons(counter: &dyn AsyncInstrument<u64>, reasons: &Reasons, label: &KeyValue) {
    reasons.each(|reason, value| {
        counter.observe(value, &[label.clone(), KeyValue::new("reason", reason.to_owned())]);
    });
}

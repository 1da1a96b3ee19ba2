//! The instruments of `[[poison_retry]]`.

use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry::{KeyValue, metrics::Meter};

use super::{super::poison_retry::LastRun, POISON_RETRY_MESSAGES, POISON_RETRY_RUNS, Series};

pub(super) fn counters(meter: &Meter, series: &Arc<Series>) {
    let all = series.clone();
    let _ = meter
        .u64_observable_counter(POISON_RETRY_RUNS)
        .with_description("Runs of the poison-queue retry processor, by result")
        .with_callback(move |counter| {
            all.poison_retries.each(|queue, _| {
                for (result, count) in queue.runs() {
                    counter.observe(count, &[queue.label.clone(), KeyValue::new("result", result)]);
                }
            });
        })
        .build();
    let all = series.clone();
    let _ = meter
        .u64_observable_counter(POISON_RETRY_MESSAGES)
        .with_description("Messages of the poison-queue retry processor, by outcome")
        .with_callback(move |counter| {
            all.poison_retries.each(|queue, _| {
                for (outcome, count) in queue.messages() {
                    let outcome = KeyValue::new("outcome", outcome);
                    counter.observe(count, &[queue.label.clone(), outcome]);
                }
            });
        })
        .build();
}

/// A gauge of a processor: its name, its unit, its description and its value, if known.
type PoisonRetryGauge = (&'static str, &'static str, &'static str, fn(&LastRun) -> Option<f64>);

const GAUGES: [PoisonRetryGauge; 3] = [
    (
        "bezoar.poison_retry.last_run_time",
        "s",
        "When the last run ended, in seconds since 1970",
        |last| Some(seconds(last.at)),
    ),
    (
        "bezoar.poison_retry.last_success_time",
        "s",
        "When the last run ended that could proceed, in seconds since 1970",
        |last| last.succeeded_at.map(seconds),
    ),
    (
        "bezoar.poison_retry.last_run_ok",
        "",
        "1 if the last run could proceed, otherwise 0",
        |last| Some(f64::from(u8::from(last.is_ok))),
    ),
];

/// Processors that no longer exist are omitted.
pub(super) fn gauges(meter: &Meter, series: &Arc<Series>) {
    for (name, unit, description, of) in GAUGES {
        let all = series.clone();
        let _ = meter
            .f64_observable_gauge(name)
            .with_unit(unit)
            .with_description(description)
            .with_callback(move |gauge| {
                all.poison_retries.each(|queue, held| {
                    let last = queue.last().filter(|_| held);
                    if let Some(value) = last.as_ref().and_then(of) {
                        gauge.observe(value, std::slice::from_ref(&queue.label));
                    }
                });
            })
            .build();
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}

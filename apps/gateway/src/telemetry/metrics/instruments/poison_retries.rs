//! The instruments of `[[poison_retry]]`.

use std::sync::Arc;

use opentelemetry::{KeyValue, metrics::Meter};

use super::{POISON_RETRY_MESSAGES, POISON_RETRY_RUNS, Series};

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

/// Processors that no longer exist are omitted.
pub(super) fn gauges(meter: &Meter, series: &Arc<Series>) {
    let all = series.clone();
    let _ = meter
        .f64_observable_gauge("bezoar.poison_retry.last_run_time")
        .with_unit("s")
        .with_description("When the last run ended, in seconds since 1970")
        .with_callback(move |gauge| {
            all.poison_retries.each(|queue, held| {
                if let Some(last) = queue.last().filter(|_| held) {
                    let seconds = last.at.as_millisecond() as f64 / 1e3;
                    gauge.observe(seconds, std::slice::from_ref(&queue.label));
                }
            });
        })
        .build();
    let all = series.clone();
    let _ = meter
        .u64_observable_gauge("bezoar.poison_retry.last_run_ok")
        .with_description("1 if the last run could proceed, otherwise 0")
        .with_callback(move |gauge| {
            all.poison_retries.each(|queue, held| {
                if let Some(last) = queue.last().filter(|_| held) {
                    gauge.observe(last.is_ok.into(), std::slice::from_ref(&queue.label));
                }
            });
        })
        .build();
}

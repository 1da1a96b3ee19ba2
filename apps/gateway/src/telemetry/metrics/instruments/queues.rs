//! The instruments of queues.

use std::{sync::Arc, time::Duration};

use opentelemetry::metrics::Meter;

use super::{super::QueueGauges, MESSAGES_IN_QUEUE, Series, count, count_reasons};

pub(super) fn counters(meter: &Meter, series: &Arc<Series>) {
    let all = series.clone();
    let _ = meter
        .u64_observable_counter("bezoar.accepted")
        .with_description("Messages accepted and stored")
        .with_callback(move |counter| {
            all.queues.each(|queue, _| count(counter, &queue.accepted, &queue.label));
        })
        .build();
    let all = series.clone();
    let _ = meter
        .u64_observable_counter("bezoar.refused")
        .with_description("Messages refused, by reason")
        .with_callback(move |counter| {
            all.queues.each(|queue, _| count_reasons(counter, &queue.refused, &queue.label));
        })
        .build();
}

pub(super) fn gauges(meter: &Meter, series: &Arc<Series>) {
    let all = series.clone();
    let _ = meter
        .u64_observable_gauge(MESSAGES_IN_QUEUE)
        .with_description("Messages in a queue, by state; unknown values are omitted")
        .with_callback(move |gauge| {
            all.queues.each(|queue, _| {
                let Some(figures) = queue.figures() else { return };
                for (state, count) in figures.messages() {
                    gauge.observe(count, &[queue.label.clone(), state]);
                }
            });
        })
        .build();
    let text = "How long the oldest ready message has been waiting";
    age(meter, series, ("bezoar.queue.oldest_ready", text), |it| it.oldest_ready);
    let text = "Age of the oldest dead letter";
    age(meter, series, ("bezoar.queue.oldest_dead", text), |it| it.oldest_dead);
    let text = "How long ago the messages of the queue were counted";
    age(meter, series, ("bezoar.queue.counts_age", text), |it| it.counted);
}

fn age(
    meter: &Meter,
    series: &Arc<Series>,
    (name, description): (&'static str, &'static str),
    of: fn(&QueueGauges) -> Option<Duration>,
) {
    let all = series.clone();
    let _ = meter
        .f64_observable_gauge(name)
        .with_unit("s")
        .with_description(description)
        .with_callback(move |gauge| {
            all.queues.each(|queue, _| {
                if let Some(age) = queue.figures().as_ref().and_then(of) {
                    gauge.observe(age.as_secs_f64(), std::slice::from_ref(&queue.label));
                }
            });
        })
        .build();
}

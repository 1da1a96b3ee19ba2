//! The instruments of routes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use opentelemetry::metrics::Meter;

use super::{super::RouteSeries, Series, count, count_reasons};

/// A counter of a route: its name, its description and its value.
type RouteCounter = (&'static str, &'static str, fn(&RouteSeries) -> &AtomicU64);

const ROUTE_COUNTERS: [RouteCounter; 8] = [
    ("bezoar.delivered", "Messages delivered to the endpoint", |it| &it.delivered),
    ("bezoar.retried", "Failed attempts that will be retried", |it| &it.retried),
    ("bezoar.uncounted", "Failed attempts that did not use up a retry", |it| &it.uncounted),
    (
        "bezoar.suspected",
        "Failed attempts that did not use up a retry while other messages succeeded",
        |it| &it.suspected,
    ),
    ("bezoar.released", "Messages released without an attempt", |it| &it.released),
    ("bezoar.lease_lost", "Messages whose lease was lost during an attempt", |it| &it.lease_lost),
    ("bezoar.not_settled", "Outcomes that could not be stored", |it| &it.not_settled),
    ("bezoar.interrupted", "Pauses because the store or broker was unavailable", |it| {
        &it.interrupted
    }),
];

pub(super) fn counters(meter: &Meter, series: &Arc<Series>) {
    for (name, description, of) in ROUTE_COUNTERS {
        let all = series.clone();
        let _ = meter
            .u64_observable_counter(name)
            .with_description(description)
            .with_callback(move |counter| {
                all.routes.each(|route, _| count(counter, of(route), &route.label));
            })
            .build();
    }
    let all = series.clone();
    let _ = meter
        .u64_observable_counter("bezoar.dead_lettered")
        .with_description("Messages dead-lettered, by reason")
        .with_callback(move |counter| {
            all.routes.each(|route, _| count_reasons(counter, &route.dead_lettered, &route.label));
        })
        .build();
}

/// A gauge of a route: its name, its description and its value, if known.
type RouteGauge = (&'static str, &'static str, fn(&RouteSeries) -> Option<i64>);

const ROUTE_GAUGES: [RouteGauge; 3] = [
    ("bezoar.in_flight", "Tries in progress", |it| Some(it.in_flight.load(Relaxed))),
    ("bezoar.paused", "1 if the route is paused, otherwise 0", |it| it.paused().map(i64::from)),
    ("bezoar.breaker_state", "State of the route's breaker: 0 closed, 1 half-open, 2 open", |it| {
        it.breaker().map(i64::from)
    }),
];

/// Routes that no longer exist are omitted.
pub(super) fn gauges(meter: &Meter, series: &Arc<Series>) {
    for (name, description, of) in ROUTE_GAUGES {
        let all = series.clone();
        let _ = meter
            .i64_observable_gauge(name)
            .with_description(description)
            .with_callback(move |gauge| {
                all.routes.each(|route, held| {
                    if let Some(value) = of(route).filter(|_| held) {
                        gauge.observe(value, std::slice::from_ref(&route.label));
                    }
                });
            })
            .build();
    }
}

//! What is measured of a try.

use std::{sync::Arc, time::Duration};

use bezoar::{Clock, Context, HandlerError, Postpone, QueueName};
use jiff::{SignedDuration, Timestamp};
use tower::{Layer, Service, service_fn};

use super::{exposition::parse, lab::message};
use crate::telemetry::{MeasureLayer, Metrics, TelemetryOptions};

/// One try of a message that was accepted at `time`.
async fn try_once(metrics: &Metrics, time: Timestamp, outcome: fn() -> Result<(), HandlerError>) {
    let endpoint = service_fn(|_: Context| async move { outcome() });
    let mut service = MeasureLayer::new(metrics.route("results")).layer(endpoint);
    let message = Arc::new(message("good").with_time(time));
    let context = Context::new(message, QueueName::new("lab").unwrap());
    let _ = service.call(context).await;
}

#[tokio::test]
async fn a_postponed_message_is_not_measured_as_a_try() {
    let metrics = Metrics::local();
    let held_back = || Err(HandlerError::Postponed(Postpone(Duration::ZERO)));
    try_once(&metrics, Timestamp::UNIX_EPOCH, held_back).await;
    let measured = |series: &String| series.contains("delivery_") || series.contains("endpoint");
    assert!(!parse(&metrics.render()).keys().any(measured));
}

#[derive(Debug)]
struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}

#[tokio::test]
async fn the_way_to_the_endpoint_is_measured_by_the_clock() {
    let now = Timestamp::from_second(1_000_000_000).unwrap();
    let clock = Arc::new(Stopped(now));
    let options = TelemetryOptions { clock, ..TelemetryOptions::default() };
    let metrics = Metrics::new(&options, None).unwrap();
    for seconds in [-3, 60] {
        try_once(&metrics, now + SignedDuration::from_secs(seconds), || Ok(())).await;
    }
    let samples = parse(&metrics.render());
    assert_eq!(samples[r#"bezoar_accept_to_endpoint_seconds_sum{route="results"}"#], 3.0);
    assert_eq!(samples[r#"bezoar_accept_to_endpoint_seconds_count{route="results"}"#], 2.0);
    assert_eq!(samples["bezoar_process_start_time_seconds"], 1e9);
}

//! What a scraper reads.

use std::{collections::BTreeMap, time::Duration};

use bezoar::{ErrorKind, Event, Observer, PoisonRun, QueueName, Timestamp, TransportError};

use super::{
    exposition::parse,
    lab::{Lab, message},
};
use crate::telemetry::{BreakerState, Correlation, Metrics, QueueGauges};

fn samples(metrics: &Metrics) -> BTreeMap<String, f64> {
    parse(&metrics.render())
}

#[tokio::test]
async fn outcomes_are_counted_and_measured() {
    let metrics = Metrics::local();
    let lab = Lab::start(&metrics, Correlation::On).await;
    for message_type in ["good", "flaky", "bad", "slow"] {
        lab.accept(message_type, None).await;
    }
    let samples = samples(&metrics);
    for (series, value) in [
        (r#"bezoar_accepted_total{queue="lab"}"#, 4.0),
        (r#"bezoar_delivered_total{route="results"}"#, 3.0),
        (r#"bezoar_retried_total{route="results"}"#, 2.0),
        (r#"bezoar_dead_lettered_total{reason="not-retryable",route="results"}"#, 1.0),
        (r#"bezoar_released_total{route="results"}"#, 0.0),
        (r#"bezoar_in_flight{route="results"}"#, 0.0),
        (r#"bezoar_delivery_duration_seconds_count{outcome="ok",route="results"}"#, 3.0),
        (r#"bezoar_delivery_duration_seconds_count{outcome="retryable",route="results"}"#, 1.0),
        (r#"bezoar_delivery_duration_seconds_count{outcome="permanent",route="results"}"#, 1.0),
        (r#"bezoar_delivery_duration_seconds_count{outcome="cancelled",route="results"}"#, 1.0),
        (r#"bezoar_accept_to_endpoint_seconds_count{route="results"}"#, 4.0),
        (r#"bezoar_accept_duration_seconds_count"#, 4.0),
        (r#"bezoar_build_info{version="0.1.0"}"#, 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&value), "{series} in {samples:#?}");
    }
    assert!(samples["bezoar_process_start_time_seconds"] > 1.7e9);
    lab.stop().await;
}

#[test]
fn outcomes_that_are_not_stored_are_counted_too() {
    let metrics = Metrics::local();
    let observer = metrics.route("results").observer();
    let (queue, message) = (QueueName::new("lab").unwrap(), message("good"));
    let error = TransportError::new(ErrorKind::Unavailable, "memory", "settle");
    for event in [Event::Released, Event::LeaseLost, Event::NotSettled(&error), Event::Started] {
        observer.message(&queue, &message, &event);
    }
    observer.paused(&queue, &error, Duration::ZERO);
    let samples = samples(&metrics);
    for name in ["released", "lease_lost", "not_settled", "interrupted"] {
        assert_eq!(samples[&format!(r#"bezoar_{name}_total{{route="results"}}"#)], 1.0, "{name}");
    }
}

#[test]
fn unknown_gauges_are_absent_and_never_0() {
    let metrics = Metrics::local();
    let known = QueueGauges {
        ready: Some(7),
        dead: Some(0),
        oldest_ready: Some(Duration::from_millis(1_500)),
        ..QueueGauges::default()
    };
    metrics.set_queue("lab", &known);
    let shown = samples(&metrics);
    assert_eq!(shown[r#"bezoar_queue_messages{queue="lab",state="ready"}"#], 7.0);
    assert_eq!(shown[r#"bezoar_queue_messages{queue="lab",state="dead"}"#], 0.0);
    assert_eq!(shown[r#"bezoar_queue_oldest_ready_seconds{queue="lab"}"#], 1.5);
    let unknown = |series: &String| series.contains("delayed") || series.contains("oldest_dead");
    assert!(!shown.keys().any(unknown), "{shown:#?}");

    metrics.set_queue("lab", &QueueGauges::default());
    assert!(!samples(&metrics).keys().any(|series| series.contains("queue_messages")));
    metrics.set_queue("lab", &known);
    metrics.forget_queue("lab");
    assert!(!samples(&metrics).keys().any(|series| series.contains("queue_messages")));
}

#[test]
fn the_state_of_a_route_is_shown_while_it_exists() {
    let metrics = Metrics::local();
    let route = metrics.route("results");
    let states = |metrics: &Metrics| {
        let of = |name: &str| {
            samples(metrics).get(&format!(r#"bezoar_{name}{{route="results"}}"#)).copied()
        };
        (of("paused"), of("breaker_state"), of("in_flight"))
    };
    assert_eq!(states(&metrics), (None, None, Some(0.0)));
    route.set_paused(true);
    route.set_breaker(BreakerState::Open);
    assert_eq!(states(&metrics), (Some(1.0), Some(2.0), Some(0.0)));
    drop(route);
    assert_eq!(states(&metrics), (None, None, None));
    assert_eq!(samples(&metrics)[r#"bezoar_delivered_total{route="results"}"#], 0.0);
}

#[test]
fn runs_of_a_poison_queue_are_counted_by_result_and_outcome() {
    let metrics = Metrics::local();
    let processor = metrics.poison_retry("lab/results-poison");
    let last = |metrics: &Metrics| {
        let samples = samples(metrics);
        let of = |name: &str| {
            let series = format!(r#"bezoar_poison_retry_{name}{{queue="lab/results-poison"}}"#);
            samples.get(&series).copied()
        };
        ["last_run_time_seconds", "last_success_time_seconds", "last_run_ok"].map(of)
    };
    assert_eq!(last(&metrics), [None; 3], "no run yet");
    let mut run = PoisonRun::default();
    (run.taken, run.delivered, run.retried, run.dead_lettered, run.left) = (10, 4, 3, 2, 1);
    let took = Duration::from_secs(2);
    let ran = |run, at| processor.ran(run, took, Timestamp::from_millisecond(at).unwrap());
    ran(Ok(&run), 1_500);
    assert_eq!(last(&metrics), [Some(1.5), Some(1.5), Some(1.0)]);
    ran(Err(&run), 2_500);
    assert_eq!(last(&metrics), [Some(2.5), Some(1.5), Some(0.0)]);
    let counted = samples(&metrics);
    for (series, value) in [
        (r#"runs_total{queue="lab/results-poison",result="ok"}"#, 1.0),
        (r#"runs_total{queue="lab/results-poison",result="failed"}"#, 1.0),
        (r#"duration_seconds_count{queue="lab/results-poison",result="ok"}"#, 1.0),
        (r#"duration_seconds_sum{queue="lab/results-poison",result="failed"}"#, 2.0),
        (r#"messages_total{outcome="delivered",queue="lab/results-poison"}"#, 8.0),
        (r#"messages_total{outcome="retried",queue="lab/results-poison"}"#, 6.0),
        (r#"messages_total{outcome="dead_lettered",queue="lab/results-poison"}"#, 4.0),
        (r#"messages_total{outcome="left",queue="lab/results-poison"}"#, 2.0),
    ] {
        let series = format!("bezoar_poison_retry_{series}");
        assert_eq!(counted.get(&series), Some(&value), "{series} in {counted:#?}");
    }
    drop(processor);
    assert_eq!(last(&metrics), [None; 3], "it is no longer configured");
}

#[test]
fn label_values_are_bounded() {
    let metrics = Metrics::local();
    for number in 0..3_000 {
        let name = format!("q{number}");
        let ready = QueueGauges {
            ready: Some(1),
            delayed: Some(1),
            in_flight: Some(1),
            dead: Some(1),
            ..QueueGauges::default()
        };
        metrics.set_queue(&name, &ready);
        metrics.queue(&name).accepted(1, Duration::ZERO);
        metrics.queue(&name).refused(1, "too-large");
        let mut run = PoisonRun::default();
        (run.taken, run.delivered) = (1, 1);
        metrics.poison_retry(&name).ran(Ok(&run), Duration::ZERO, Timestamp::UNIX_EPOCH);
    }
    metrics.unknown_queue().refused(1, "unknown-queue");
    let samples = samples(&metrics);
    let sum = |name: &str| {
        samples.iter().filter(|(it, _)| it.starts_with(name)).map(|(_, value)| value).sum::<f64>()
    };
    assert_eq!(sum("bezoar_accepted_total"), 3_000.0);
    assert_eq!(sum("bezoar_refused_total"), 3_001.0);
    assert_eq!(sum("bezoar_queue_messages"), 4_000.0);
    assert_eq!(sum("bezoar_poison_retry_runs_total"), 3_000.0);
    assert_eq!(sum("bezoar_poison_retry_messages_total"), 3_000.0);
    assert_eq!(sum("bezoar_poison_retry_duration_seconds_count"), 3_000.0);
    assert_eq!(samples[r#"bezoar_accepted_total{queue="other"}"#], 2_000.0);
    assert!(!samples.keys().any(|series| series.contains("overflow")));
}

#[test]
fn names_with_quotes_and_line_breaks_do_not_break_the_format() {
    let metrics = Metrics::local();
    metrics.queue("a\"b\\c\nd größe").accepted(1, Duration::ZERO);
    let series = r#"bezoar_accepted_total{queue="a\"b\\c\nd größe"}"#;
    assert_eq!(samples(&metrics).get(series), Some(&1.0));
}

#[test]
fn metrics_that_are_off_show_nothing() {
    let metrics = Metrics::off();
    metrics.queue("lab").accepted(1, Duration::ZERO);
    assert!(!metrics.is_on());
    assert_eq!(metrics.render(), "");
}

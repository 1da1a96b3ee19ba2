//! What a collector receives.

use std::{io::sink, time::Duration};

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use super::{
    collector::{Collector, attribute},
    lab::{CALLER, Lab},
};
use crate::telemetry::{
    Correlation, LogFormat, LogOptions, Telemetry, TelemetryOptions, accept_span,
};

fn options(collector: &Collector) -> TelemetryOptions {
    TelemetryOptions {
        log: LogOptions { format: LogFormat::Off, ..LogOptions::default() },
        otlp_endpoint: Some(collector.endpoint.clone()),
        ..TelemetryOptions::default()
    }
}

/// Runs messages of these types through a lab, and returns what its endpoint was told about traces.
async fn run(
    options: &TelemetryOptions,
    correlation: Correlation,
    message_types: &[&str],
    incoming: Option<&str>,
) -> Vec<Option<String>> {
    let (telemetry, dispatch) = Telemetry::build(options, BoxMakeWriter::new(sink)).unwrap();
    let _guard = dispatch.as_ref().map(tracing::dispatcher::set_default);
    let lab = Lab::start(telemetry.metrics(), correlation).await;
    for message_type in message_types {
        lab.accept(message_type, correlation.incoming(incoming)).await;
    }
    let told = lab.told.lock().unwrap().clone();
    lab.stop().await;
    telemetry.shutdown(Duration::from_secs(10)).await.unwrap();
    told
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn traceparent(span: &Span) -> String {
    format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id))
}

#[tokio::test]
async fn one_trace_goes_from_the_caller_through_acceptance_and_every_attempt() {
    let collector = Collector::start();
    let told = run(&options(&collector), Correlation::On, &["flaky"], Some(CALLER)).await;
    let spans = collector.spans();
    let named = |name: &str| spans.iter().filter(|it| it.name == name).collect::<Vec<_>>();
    let (accepted, attempts) = (named("accept lab"), named("deliver lab"));
    assert_eq!((accepted.len(), attempts.len(), spans.len()), (1, 2, 3), "{spans:#?}");
    assert_eq!(hex(&accepted[0].parent_span_id), &CALLER[36..52]);
    for span in &spans {
        assert_eq!(hex(&span.trace_id), &CALLER[3..35]);
    }
    for attempt in &attempts {
        assert_eq!(attempt.parent_span_id, accepted[0].span_id);
    }
    let attempts: Vec<_> = attempts.into_iter().map(|it| Some(traceparent(it))).collect();
    assert_eq!(told, attempts, "the endpoint is told of the span of its own try");
}

#[tokio::test]
async fn spans_follow_the_conventions_and_say_how_it_ended() {
    let collector = Collector::start();
    run(&options(&collector), Correlation::On, &["flaky", "bad"], None).await;
    let spans = collector.spans();
    let accepted = spans.iter().find(|it| it.name == "accept lab").unwrap();
    assert_eq!(accepted.kind(), SpanKind::Producer);
    assert_eq!(attribute(accepted, "messaging.operation.type").unwrap(), "send");
    assert_eq!(attribute(accepted, "messaging.message.id").unwrap(), "m-1");
    let tries: Vec<_> = spans.iter().filter(|it| it.name == "deliver lab").collect();
    let ends: Vec<_> = tries.iter().map(|it| (status(it), attribute(it, "error.type"))).collect();
    assert_eq!(
        ends,
        [
            (StatusCode::Error, Some("http.503".to_owned())),
            (StatusCode::Ok, None),
            (StatusCode::Error, Some("permanent".to_owned())),
        ]
    );
    for (key, value) in [
        ("messaging.system", "bezoar"),
        ("messaging.operation.name", "deliver"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "lab"),
        ("messaging.message.id", "m-1"),
        ("messaging.message.conversation_id", "c-7"),
        ("messaging.message.body.size", "13"),
        ("bezoar.route", "results"),
        ("bezoar.attempt", "2"),
        ("bezoar.redelivered", "false"),
    ] {
        assert_eq!(attribute(tries[1], key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(tries[1].kind(), SpanKind::Consumer);
    assert!(spans.iter().all(|it| it.events.is_empty()), "events of others are not sent");
}

fn status(span: &Span) -> StatusCode {
    let status = span.status.as_ref().unwrap();
    assert_eq!(status.message, "", "a description could hold a detail");
    status.code()
}

#[tokio::test]
async fn a_cancelled_try_is_recorded_as_an_error() {
    let collector = Collector::start();
    run(&options(&collector), Correlation::On, &["slow"], None).await;
    let spans = collector.spans();
    let tries: Vec<_> = spans.iter().filter(|it| it.name == "deliver lab").collect();
    let ends: Vec<_> = tries.iter().map(|it| (status(it), attribute(it, "error.type"))).collect();
    let cancelled = (StatusCode::Error, Some("cancelled".to_owned()));
    assert_eq!(ends, [cancelled, (StatusCode::Ok, None)]);
}

#[tokio::test]
async fn metrics_reach_the_collector_too() {
    let collector = Collector::start();
    run(&options(&collector), Correlation::On, &["good"], None).await;
    let names = collector.metric_names();
    for name in ["bezoar.accepted", "bezoar.delivered", "bezoar.delivery.duration"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
}

#[tokio::test]
async fn without_traces_the_callers_trace_is_still_passed_on_unchanged() {
    let collector = Collector::start();
    let silent = TelemetryOptions { traces: false, metrics: false, ..options(&collector) };
    let told = run(&silent, Correlation::On, &["flaky"], Some(CALLER)).await;
    assert_eq!(told, [Some(CALLER.to_owned()), Some(CALLER.to_owned())]);
    let told = run(&silent, Correlation::On, &["good"], Some("garbage")).await;
    assert_eq!(told, [None]);
    assert_eq!(collector.bytes().len(), 0, "what is off sends nothing");
}

#[test]
fn without_traces_their_spans_are_not_even_made() {
    let log = LogOptions { format: LogFormat::Text, filter: "trace".to_owned() };
    let loud = TelemetryOptions { log, ..TelemetryOptions::default() };
    let (_telemetry, dispatch) = Telemetry::build(&loud, BoxMakeWriter::new(sink)).unwrap();
    tracing::dispatcher::with_default(&dispatch.unwrap(), || {
        assert!(accept_span("lab", &[], None).is_disabled());
        assert!(!tracing::info_span!("another").is_disabled());
    });
}

#[tokio::test]
async fn without_correlation_no_trace_is_passed_on() {
    let collector = Collector::start();
    let told = run(&options(&collector), Correlation::Off, &["good"], Some(CALLER)).await;
    assert_eq!(told, [None]);
    let traces: Vec<_> = collector.spans().iter().map(|it| hex(&it.trace_id)).collect();
    assert_eq!(traces.len(), 2);
    assert!(traces[0] == traces[1] && traces[0] != CALLER[3..35], "{traces:?}");
}

#[tokio::test]
async fn a_trace_that_its_caller_does_not_record_is_not_recorded_here() {
    let collector = Collector::start();
    let unsampled = CALLER.replace("-01", "-00");
    let told = run(&options(&collector), Correlation::On, &["good"], Some(&unsampled)).await;
    let told = told[0].as_deref().unwrap();
    assert!(told.starts_with(&CALLER[..35]) && told.ends_with("-00"), "{told}");
    assert!(collector.spans().is_empty());
}

//! A collector that cannot be reached costs nothing but its telemetry.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use tracing_subscriber::fmt::writer::BoxMakeWriter;

use super::{exposition::parse, lab::Lab, program::run};
use crate::telemetry::{
    Correlation, LogFormat, LogOptions, Telemetry, TelemetryError, TelemetryOptions,
};

/// How much later than its deadline a call may return on a busy machine.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_collector_that_never_answers_holds_nothing_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = TelemetryOptions {
        log: LogOptions { format: LogFormat::Off, ..LogOptions::default() },
        otlp_endpoint: Some(format!("http://{}", silent.local_addr().unwrap())),
        ..TelemetryOptions::default()
    };
    let (telemetry, dispatch) =
        Telemetry::build(&options, BoxMakeWriter::new(std::io::sink)).unwrap();
    let _guard = dispatch.as_ref().map(tracing::dispatcher::set_default);
    let lab = Lab::start(telemetry.metrics(), Correlation::On).await;
    lab.accept("good", None).await;
    lab.stop().await;
    let samples = parse(&telemetry.metrics().render());
    assert_eq!(samples[r#"bezoar_delivered_total{route="results"}"#], 1.0);

    let (begun, deadline) = (Instant::now(), Duration::from_millis(300));
    let outcome = telemetry.shutdown(deadline).await;
    assert!(
        matches!(outcome, Err(TelemetryError::NotFlushed { signal: "traces", .. })),
        "{outcome:?}"
    );
    assert!(begun.elapsed() < deadline + SLACK, "{:?}", begun.elapsed());
}

#[test]
fn with_a_collector_that_is_gone_logs_and_metrics_are_complete_and_the_process_ends() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Instant::now();
    let said = run(LogFormat::Json, "info", &format!("http://{gone}"));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for text in ["retry 1 of 3", "dead-lettered", "the last words"] {
        assert!(said.stderr.contains(text), "{text} in {}", said.stderr);
    }
    assert!(said.stdout.contains(r#"bezoar_delivered_total{route="results"} 2"#));
    assert!(said.stderr.contains("opentelemetry"), "that it is gone is said: {}", said.stderr);
}

#[tokio::test]
async fn what_is_off_is_shut_down_at_once() {
    let options = TelemetryOptions { traces: false, metrics: false, ..TelemetryOptions::default() };
    let (telemetry, _) = Telemetry::build(&options, BoxMakeWriter::new(std::io::sink)).unwrap();
    assert!(telemetry.shutdown(Duration::from_secs(1)).await.is_ok());
}

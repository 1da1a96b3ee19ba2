//! Telemetry in a process of its own, whose stderr is all that it says: there is one log for a process,
//! and threads of the exporter write to it as well.

use std::{
    process::{Command, Output},
    time::Duration,
};

use super::lab::Lab;
use crate::telemetry::{
    Correlation, LogDirectives, LogFormat, LogOptions, Telemetry, TelemetryOptions,
};

/// How the process is told what to do: format, filter, endpoint.
const ORDER: &str = "BEZOAR_TELEMETRY_TEST";

/// What such a process said.
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs messages through a lab in a process of its own.
pub(super) fn run(format: LogFormat, filter: &str, endpoint: &str) -> Said {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "telemetry::tests::program::in_a_process_of_its_own"])
        .args(["--ignored", "--nocapture"])
        .env(ORDER, format!("{format:?} {filter} {endpoint}"))
        .env_remove("RUST_LOG")
        .output();
    let Output { status, stdout, stderr } = output.unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(status.success(), "{stdout}\n{stderr}");
    Said { stdout, stderr }
}

#[tokio::test]
#[ignore = "the tests beside it start it in a process of its own"]
async fn in_a_process_of_its_own() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let [format, filter, endpoint] = order.split(' ').collect::<Vec<_>>()[..] else { panic!() };
    let telemetry = Telemetry::start(&options(format, filter, endpoint)).unwrap();
    let lab = Lab::start(telemetry.metrics(), Correlation::On).await;
    for message_type in ["good", "flaky", "bad"] {
        lab.accept(message_type, None).await;
    }
    lab.stop().await;
    telemetry.set_log_filter(LogDirectives::parse("off").unwrap());
    tracing::error!("this is filtered");
    telemetry.set_log_filter(LogDirectives::parse(filter).unwrap());
    println!("{}", telemetry.metrics().render());
    let log = telemetry.log.clone().unwrap();
    let flushed = telemetry.shutdown(Duration::from_secs(2)).await;
    tracing::warn!(flushed = flushed.is_ok(), "the last words");
    log.flush(Duration::from_secs(2));
}

fn options(format: &str, filter: &str, endpoint: &str) -> TelemetryOptions {
    let formats = [LogFormat::Text, LogFormat::Json, LogFormat::Off];
    let format = formats.into_iter().find(|it| format!("{it:?}") == format).unwrap();
    TelemetryOptions {
        log: LogOptions { format, filter: filter.to_owned() },
        otlp_endpoint: (!endpoint.is_empty()).then(|| endpoint.to_owned()),
        ..TelemetryOptions::default()
    }
}

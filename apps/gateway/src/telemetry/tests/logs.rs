//! What stderr shows.

use serde_json::Value;

use super::program::run;
use crate::telemetry::{LogFormat, LogOptions, Telemetry, TelemetryError, TelemetryOptions};

fn lines(stderr: &str) -> Vec<Value> {
    let parse =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stderr.lines().map(parse).collect()
}

#[test]
fn json_lines_are_json_with_what_is_needed_to_find_a_message() {
    let lines = lines(&run(LogFormat::Json, "info", "").stderr);
    let said = |text: &str| lines.iter().find(|it| it["message"] == text).expect(text);
    let retried = said("attempt 1 of 4 failed, retry 1 of 3 in 1 ms");
    assert_eq!(retried["queue"], "lab");
    assert_eq!(retried["message_id"], "m-1");
    assert_eq!(retried["correlation_id"], "c-7");
    assert_eq!((&retried["retry_count"], &retried["max_retries"]), (&1.into(), &3.into()));
    assert_eq!((&retried["kind"], &retried["code"]), (&"transient".into(), &"http.503".into()));
    assert_eq!(retried["delay_ms"], 1);
    assert_eq!(retried["level"], "INFO");
    assert!(retried["timestamp"].as_str().unwrap().ends_with('Z'));
    let dead = "attempt 1 of 4 failed, dead-lettered: non-retryable error: permanent";
    assert_eq!(said(dead)["level"], "ERROR");
    assert_eq!(said("the last words")["flushed"], true);
    // What a handler says is found by the message that it was said about.
    let span = &said("the endpoint was called")["span"];
    assert_eq!((&span["message_id"], &span["attempt"]), (&"m-1".into(), &1.into()));
}

#[test]
fn text_lines_name_the_message() {
    let stderr = run(LogFormat::Text, "info", "").stderr;
    let called = stderr.lines().find(|line| line.contains("the endpoint was called")).unwrap();
    for part in ["INFO", "queue=lab", "message_id=m-1", "correlation_id=\"c-7\"", "attempt=1"] {
        assert!(called.contains(part), "{part} in {called}");
    }
    assert!(!stderr.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn the_filter_says_what_is_logged_and_can_be_changed() {
    let stderr = run(LogFormat::Json, "warn", "").stderr;
    assert!(!stderr.contains("retry 1 of 3") && stderr.contains("dead-lettered"), "{stderr}");
    assert!(!stderr.contains("this is filtered") && stderr.contains("the last words"), "{stderr}");
}

#[test]
fn logs_that_are_off_write_nothing() {
    let said = run(LogFormat::Off, "trace", "");
    assert_eq!(said.stderr, "");
    assert!(said.stdout.contains("bezoar_delivered_total"), "metrics are not logs");
}

#[test]
fn a_malformed_filter_is_refused() {
    let log = LogOptions { filter: "bezoar=loudly".to_owned(), ..LogOptions::default() };
    let options = TelemetryOptions { log, ..TelemetryOptions::default() };
    assert!(matches!(Telemetry::start(&options), Err(TelemetryError::Filter(_))));
}

//! Nothing of a message's content is in any log, metric or trace.

use std::net::TcpListener;

use super::{collector::Collector, lab::CANARY, program::run};
use crate::telemetry::LogFormat;

#[test]
fn a_canary_in_bodies_headers_and_details_is_seen_nowhere() {
    let collector = Collector::start();
    for format in [LogFormat::Text, LogFormat::Json] {
        let said = run(format, "trace", &collector.endpoint);
        // That all of it was looked at.
        assert!(said.stderr.contains("TRACE") && said.stderr.contains("dead-lettered"));
        assert!(said.stdout.contains("bezoar_dead_lettered_total"));
        assert!(!said.stderr.contains("messaging."), "spans for traces are not for the log");
        for (place, text) in [("stderr", &said.stderr), ("stdout", &said.stdout)] {
            assert!(!text.contains(CANARY), "on {place}: {}", lines_with(CANARY, text));
        }
    }
    assert!(collector.spans().len() >= 14 && !collector.metric_names().is_empty());
    let bytes = collector.bytes();
    assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()));
    assert!(bytes.windows(3).any(|window| window == b"m-1"), "ids are there, so the search finds");
}

#[test]
fn a_token_in_the_collectors_address_is_not_logged_when_it_cannot_be_reached() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stderr = run(LogFormat::Text, "trace", &format!("http://{gone}/{CANARY}")).stderr;
    assert!(stderr.contains("ERROR opentelemetry"), "that it was tried is logged");
    assert!(!stderr.contains(CANARY), "{}", lines_with(CANARY, &stderr));
}

fn lines_with(what: &str, text: &str) -> String {
    text.lines().filter(|line| line.contains(what)).collect::<Vec<_>>().join("\n")
}

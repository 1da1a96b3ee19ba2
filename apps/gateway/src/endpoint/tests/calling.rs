//! Calls without blame or breaker, for callers with rules of their own.

use std::sync::Arc;

use http::StatusCode;

use super::{
    FixedClock, LONG, SHORT, client, context, message,
    server::{Server, hung_up},
};
use crate::endpoint::{CallOptions, CallReport, EndpointCaller, Verdict};

async fn call(url: &str) -> CallReport {
    let timeout = if url.contains("slow") { SHORT } else { LONG };
    let options = CallOptions { timeout, ..CallOptions::new(url.parse().unwrap()) };
    let caller = EndpointCaller::new(options, client(), Arc::new(FixedClock));
    caller.call(&context(message(b"CANARY".to_vec()))).await
}

fn answering(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn every_status_but_success_is_a_refusal() {
    for (status, verdict) in [
        (200, Verdict::Accepted),
        (204, Verdict::Accepted),
        (302, Verdict::Refused),
        (400, Verdict::Refused),
        (401, Verdict::Refused),
        (410, Verdict::Refused),
        (422, Verdict::Refused),
        (429, Verdict::Refused),
        (500, Verdict::Refused),
        (503, Verdict::Refused),
    ] {
        let report = call(&Server::saying(answering(status, "")).await.url()).await;
        assert_eq!(
            (report.verdict(), report.status()),
            (verdict, StatusCode::from_u16(status).ok())
        );
        let code = if status < 300 { "http.2xx".to_owned() } else { format!("http.{status}") };
        assert_eq!(report.code().as_str(), code);
        assert_eq!(report.failure().is_some(), status >= 300);
    }
}

#[tokio::test]
async fn a_refusal_keeps_what_the_endpoint_said_and_does_not_print_it() {
    let report = call(&Server::saying(answering(500, "CANARY")).await.url()).await;
    assert_eq!(report.failure().unwrap().detail.reveal(), "CANARY");
    assert_eq!(format!("{report:?}"), "CallReport { verdict: Refused, code: \"http.500\", .. }");
}

#[tokio::test]
async fn no_reply_is_a_refusal_with_its_error() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = Server::start(|mut stream| async move { hung_up(&mut stream).await }).await;
    for (url, code) in [
        (format!("http://{closed}/"), "connect.refused"),
        (format!("{}slow", silent.url()), "timeout"),
        ("http://169.254.169.254/".to_owned(), "target.denied"),
    ] {
        let report = call(&url).await;
        assert_eq!((report.verdict(), report.status()), (Verdict::Refused, None));
        assert_eq!(report.error().unwrap().kind.code(), report.code());
        assert_eq!(report.code().as_str(), code);
        assert_eq!(report.failure().unwrap().code.as_str(), code);
    }
}

#[tokio::test]
async fn nothing_is_held_back_however_often_it_fails() {
    let server = Server::saying(answering(500, "")).await;
    for _ in 0..20 {
        assert_eq!(call(&server.url()).await.code().as_str(), "http.500");
    }
}

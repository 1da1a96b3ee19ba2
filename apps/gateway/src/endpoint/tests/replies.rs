//! Replies that are HTTP, and odd.

use std::sync::Arc;

use bezoar::FailureKind;

use super::{
    LONG, endpoint, failure, postponed, send,
    server::{Server, answering},
    shown,
};

async fn check(reply: &'static [u8], expected: &str) {
    let server = Server::saying(reply).await;
    let delivered = send(&endpoint(&server.url(), LONG)).await;
    assert_eq!(shown(&delivered), expected, "{}", String::from_utf8_lossy(reply));
}

#[tokio::test]
async fn provisional_replies_are_passed_over() {
    let ok = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\
               content-length: 0\r\n\r\n";
    check(ok, "done").await;
    check(
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        "external service (http.500)",
    )
    .await;
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    check(upgrade, "permanent (http.101)").await;
}

#[tokio::test]
async fn odd_but_valid_replies_mean_what_their_status_says() {
    check(b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", "done").await;
    check(b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", "done").await;
    check(b"HTTP/1.1 200 \xff\xfe\r\nx: \xff\xfe\r\ncontent-length: 2\r\n\r\n\xff\xfe", "done")
        .await;
    check(b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n", "external service (http.999)").await;
    check(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", "not found (http.404)").await;
    check(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", "unauthorized (http.401)").await;
    check(b"HTTP/1.1 408 No\r\ncontent-length: 0\r\n\r\n", "transient (http.408)").await;
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (elsewhere, _requests) = answering(|| http::StatusCode::OK).await;
    for status in [301, 302, 303, 307, 308] {
        let url = elsewhere.url();
        let reply = format!("HTTP/1.1 {status} X\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n");
        let server = Server::saying(reply).await;
        let failure = failure(send(&endpoint(&server.url(), LONG)).await);
        assert_eq!(failure.kind, FailureKind::Permanent);
        assert_eq!(failure.code.as_str(), format!("http.{status}"));
    }
    assert_eq!(elsewhere.connections().accepted, 0);
}

#[tokio::test]
async fn text_that_is_not_utf8_is_kept_as_far_as_it_can_be_read() {
    let server = Server::saying(b"HTTP/1.1 500 No\r\ncontent-length: 6\r\n\r\nM\xfcller").await;
    let failure = failure(send(&endpoint(&server.url(), LONG)).await);
    assert_eq!(failure.detail.reveal(), "M\u{fffd}ller");
}

#[tokio::test]
async fn a_problem_names_its_code() {
    let body = r#"{"type": "https://lab.example/problems/unknown-analyte", "title": "Unknown", "detail": "K+"}"#;
    let reply = format!(
        "HTTP/1.1 503 X\r\nretry-after: 7\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = Server::saying(reply).await;
    let failure = failure(send(&endpoint(&server.url(), LONG)).await);
    assert_eq!(failure.code.as_str(), "problems/unknown-analyte");
    assert_eq!(failure.detail.reveal(), "Unknown: K+");
    assert_eq!(failure.retry_after.unwrap().as_secs(), 7);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_pauses_its_route_and_fails_no_message() {
    let server = Server::saying("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n").await;
    let (told, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let mut options = super::options(&server.url(), LONG);
    options.on_pause = Some(Arc::new(move |request| told.send(request).unwrap()));
    assert!(!postponed(send(&super::endpoint_with(options)).await).is_zero());
    assert_eq!(requests.recv().await.unwrap().code.as_str(), "http.410");
}

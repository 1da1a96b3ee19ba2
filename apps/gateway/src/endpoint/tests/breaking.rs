//! The breaker around real calls.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::{
    io::AsyncWriteExt,
    sync::{Barrier, mpsc},
};

use bezoar::blame::{BlameOptions, BreakerOptions, BreakerState};

use super::{
    LONG, SHORT, endpoint_with, options, postponed, send, send_numbered,
    server::{Seen, Server, answering, read_request},
    shown,
};
use crate::endpoint::{Endpoint, EndpointOptions, Origins, RateLimit, RouteBreaker};

const FREE: NonZeroU32 = NonZeroU32::new(16).unwrap();

fn blame(failures: u32) -> BlameOptions {
    let breaker = NonZeroU32::new(failures).map(|failures| BreakerOptions {
        failures,
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(40),
    });
    BlameOptions { breaker, concurrency: NonZeroU32::new(64).unwrap() }
}

fn endpoint(url: &str, failures: u32) -> Endpoint {
    let breaker = RouteBreaker::new("", blame(failures));
    endpoint_with(EndpointOptions { breaker, ..options(url, LONG) })
}

/// A server whose answer can be changed while it runs.
async fn moody(status: u16) -> (Server, mpsc::UnboundedReceiver<Seen>, Arc<AtomicU16>) {
    let mood = Arc::new(AtomicU16::new(status));
    let answers = mood.clone();
    let status = move || StatusCode::from_u16(answers.load(Ordering::SeqCst)).unwrap();
    let (server, requests) = answering(status).await;
    (server, requests, mood)
}

#[tokio::test]
async fn while_an_endpoint_is_down_messages_wait() {
    let (server, requests, mood) = moody(503).await;
    let endpoint = endpoint(&server.url(), 3);
    for number in 1..=3 {
        let sent = shown(&send_numbered(&endpoint, number).await);
        assert_eq!(sent, "external service (http.503), uses up no retry");
    }
    for number in 4..9 {
        postponed(send_numbered(&endpoint, number).await);
    }
    assert_eq!(requests.len(), 3, "nothing is sent while it is open");
    assert_eq!(endpoint.breaker().status().code.unwrap().as_str(), "http.503");

    assert_eq!(endpoint.breaker().admit(FREE).await.get(), 1);
    assert!(
        shown(&send_numbered(&endpoint, 4).await).contains("uses up no retry"),
        "the probe failed"
    );
    assert_eq!(requests.len(), 4);

    mood.store(200, Ordering::SeqCst);
    endpoint.breaker().admit(FREE).await;
    send_numbered(&endpoint, 5).await.unwrap();
    assert_eq!(endpoint.breaker().status().state, BreakerState::Closed);
    assert_eq!(endpoint.breaker().admit(FREE).await, FREE);
}

#[tokio::test]
async fn a_failed_probe_counts_where_it_speaks_of_the_message() {
    let (server, _requests, _) = moody(500).await;
    let endpoint = endpoint(&server.url(), 1);
    for number in 1..5 {
        endpoint.breaker().admit(FREE).await;
        let sent = shown(&send_numbered(&endpoint, number).await);
        assert_eq!(sent, "external service (http.500)");
    }
}

#[tokio::test]
async fn failures_of_messages_open_nothing() {
    for status in [400, 408, 422, 425] {
        let (server, _requests, _) = moody(status).await;
        let endpoint = endpoint(&server.url(), 1);
        for _ in 0..3 {
            assert!(shown(&send(&endpoint).await).contains(&format!("http.{status}")));
        }
        assert_eq!(endpoint.breaker().status().state, BreakerState::Closed, "{status}");
    }
}

#[tokio::test]
async fn failures_of_the_endpoint_open_it() {
    for status in [302, 401, 403, 404, 405, 429, 500, 502, 503, 504] {
        let (server, _requests, _) = moody(status).await;
        let endpoint = endpoint(&server.url(), 1);
        assert!(shown(&send(&endpoint).await).contains(&format!("http.{status}")));
        postponed(send(&endpoint).await);
    }
}

#[tokio::test]
async fn without_a_breaker_nothing_is_held_back_and_blame_is_the_same() {
    let (server, _requests, mood) = moody(503).await;
    let endpoint = endpoint(&server.url(), 0);
    for number in 0..20 {
        let sent = shown(&send_numbered(&endpoint, number).await);
        assert_eq!(sent, "external service (http.503), uses up no retry");
    }
    mood.store(500, Ordering::SeqCst);
    assert_eq!(shown(&send(&endpoint).await), "external service (http.500)");
}

#[tokio::test]
async fn a_wrong_credential_costs_a_handful_of_many_in_flight() {
    // All requests are in before the first answer goes out.
    let barrier = Arc::new(Barrier::new(50));
    let server = Server::start(move |mut stream| {
        let barrier = barrier.clone();
        async move {
            read_request(&mut stream).await;
            barrier.wait().await;
            let _ = stream.write_all(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let endpoint = endpoint(&server.url(), 5);
    let calls = (0..50).map(|number| send_numbered(&endpoint, number));
    let ends = futures_util::future::join_all(calls).await;
    let count = |expected: &str| ends.iter().filter(|end| shown(end) == expected).count();
    let (counted, not) = ("unauthorized (http.401)", "unauthorized (http.401), uses up no retry");
    assert_eq!((count(counted), count(not)), (5, 45));
}

#[tokio::test]
async fn a_route_that_fails_does_not_slow_another_one_to_the_same_host() {
    let (server, _requests, mood) = moody(500).await;
    let origins = Origins::default();
    let route = |name| {
        let breaker = origins.breaker(name, &server.url(), blame(5));
        endpoint_with(EndpointOptions { breaker, ..options(&server.url(), LONG) })
    };
    let (failing, well) = (route("failing"), route("well"));
    for number in 0..5 {
        let _ = send_numbered(&failing, number).await;
    }
    assert_eq!(failing.breaker().status().state, BreakerState::Open);
    mood.store(200, Ordering::SeqCst);
    assert!(well.breaker().admits());
    send(&well).await.unwrap();
}

#[tokio::test]
async fn an_answer_about_one_message_closes_it_again() {
    let (server, _requests, mood) = moody(500).await;
    let endpoint = endpoint(&server.url(), 1);
    let _ = send(&endpoint).await;
    mood.store(422, Ordering::SeqCst);
    endpoint.breaker().admit(FREE).await;
    assert_eq!(shown(&send_numbered(&endpoint, 2).await), "permanent (http.422)");
    assert_eq!(endpoint.breaker().status().state, BreakerState::Closed);
}

#[tokio::test]
async fn retry_after_lengthens_the_pause_within_its_bound() {
    let reply = "HTTP/1.1 429 Slow\r\nretry-after: 86400\r\ncontent-length: 0\r\n\r\n";
    let server = Server::saying(reply).await;
    let endpoint = endpoint(&server.url(), 1);
    assert_eq!(shown(&send(&endpoint).await), "transient (http.429), uses up no retry");
    let after = postponed(send(&endpoint).await);
    assert!(after > Duration::from_secs(3_590) && after <= Duration::from_secs(3_600), "{after:?}");
}

#[tokio::test]
async fn beyond_its_rate_a_message_waits_or_is_postponed() {
    let (server, requests, _) = moody(200).await;
    let some = |number| NonZeroU32::new(number).unwrap();
    let mut options = options(&server.url(), SHORT);
    options.rate = Some(RateLimit { each: Duration::from_millis(250), burst: some(2) });
    let endpoint = endpoint_with(options);
    assert_eq!(endpoint.longest(), 2 * SHORT);
    let ends = futures_util::future::join_all((0..5).map(|_| send(&endpoint))).await;
    let ends: Vec<_> = ends.iter().map(shown).collect();
    assert_eq!(ends, ["done", "done", "done", "postponed", "postponed"]);
    assert_eq!(requests.len(), 3);
}

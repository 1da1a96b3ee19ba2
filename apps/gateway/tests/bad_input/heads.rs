//! Heads and bodies that are no HTTP, or lie.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    MESSAGES,
    socket::{LAST, connect, exchange, request},
    still_accepts,
    support::{Lab, PATIENCE},
};

/// What such bytes are answered with, reply by reply.
async fn check(lab: &Lab, bytes: &[u8], expected: &[u16]) {
    let replies = exchange(lab, bytes).await;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses, expected, "{shown}");
    for reply in replies.iter().filter(|reply| reply.status >= 300) {
        assert!(reply.is_refusal(), "{shown}: {reply:?}");
    }
}

/// The HTTP library answers these itself, with a bare status: there is no request to speak of.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_is_refused_and_its_connection_closed() {
    let lab = Lab::start("").await;
    let flood = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect::<String>();
    let huge = format!("x: {}\r\n", "x".repeat(200 * 1024));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(70_000));
    let cases: [(&[u8], &[u16]); 16] = [
        (b"\0\0\0\0", &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", &[400]), // somebody speaks TLS
        (b"GET\r\n\r\n", &[400]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400]),
        (b"G\x80T / HTTP/1.1\r\n\r\n", &[400]),
        (b"GET /\xff HTTP/1.1\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\nx : y\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n", &[400]),
        (b"GET / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", &[400]),
        (&request(&lab, "GET /v1/queues", &flood, b""), &[431]),
        (&request(&lab, "GET /v1/queues", &huge, b""), &[431]),
        (long.as_bytes(), &[414]),
    ];
    for (bytes, expected) in cases {
        check(&lab, bytes, expected).await;
    }
    still_accepts(&lab).await;
}

/// A body that is cut off is no message.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_lie_about_themselves_are_not_accepted() {
    let lab = Lab::start("").await;
    let line = format!("POST {MESSAGES}");
    let chunked = "transfer-encoding: chunked\r\n";
    let cases: [(&str, &[u8], &[u16]); 8] = [
        ("content-length: 10\r\n", b"short", &[400]),
        (chunked, b"5\r\nshort", &[400]),
        (chunked, b"zz\r\nhello\r\n0\r\n\r\n", &[400]),
        (chunked, b"ffffffffffffffffff\r\nhello", &[400]),
        (chunked, b"-1\r\nhello", &[400]),
        (chunked, b"5\r\nhello!!\r\n0\r\n\r\n", &[400]),
        (chunked, b"1000001\r\n", &[400]), // no more than a promise
        ("content-length: 16777217\r\n", b"", &[413]), // refused before it is sent
    ];
    for (more, body, expected) in cases {
        check(&lab, &request(&lab, &line, more, body), expected).await;
    }
    lab.until("default", |row| row["ready"] == 0).await;
    still_accepts(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_one_go_are_answered_in_turn() {
    let lab = Lab::start("").await;
    let good = request(&lab, &format!("POST {MESSAGES}"), "content-length: 1\r\n", b"x");
    let bad = request(&lab, "POST /v1/queues/nope/messages", "content-length: 1\r\n", b"x");
    let all = [good.repeat(50), bad, good, LAST.into()].concat();
    let expected = [vec![202; 50], vec![404, 202, 200]].concat();
    check(&lab, &all, &expected).await;
    lab.until("default", |row| row["ready"] == 51).await;
}

/// Else a client that waits for one before it sends the other would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_does_not_wait_for_the_rest_of_the_next_request() {
    let lab = Lab::start("").await;
    let mut stream = connect(&lab).await;
    let whole = "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n";
    stream.write_all(format!("{whole}{}", &whole[..20]).as_bytes()).await.unwrap();
    let mut first = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut first)).await.expect("a reply").unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

/// A method or form of address that nobody uses is a problem like any other.
#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_are_problems() {
    let lab = Lab::start("").await;
    for (line, status) in [
        ("BREW /v1/queues", 405),
        ("DELETE /v1/queues", 405),
        ("CONNECT example.org:80", 404),
        ("OPTIONS *", 404),
        ("GET http://elsewhere.example/v1/nothing", 404),
        ("GET /v1/dead-letters?limit=0", 400),
        ("GET /v1/dead-letters?limit=99999999999", 400),
        ("GET /v1/dead-letters?limit=1&limit=2", 400),
        ("GET /v1/dead-letters?after=x", 404),
        ("GET /v1/dead-letters?queue=%ff", 404),
        ("GET /v1/dead-letters?queue=%00", 404),
        ("GET /v1/dead-letters?unknown=1", 400),
        ("GET /v1/dead-letters/1", 404),
        ("GET /v1/dead-letters/dl_g4jmah4z", 404),
        ("GET /v1/dead-letters/dl_zzzzzzzzzzzzz", 404),
        ("GET /v1/dead-letters/%ff", 400),
        ("GET /v1/replays/dl_g4jmah4z", 404),
        ("GET /v1/replays/OP_2O9AAWOB", 404),
    ] {
        check(&lab, &request(&lab, line, "connection: close\r\n", b""), &[status]).await;
    }
    still_accepts(&lab).await;
}

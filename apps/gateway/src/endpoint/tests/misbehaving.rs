//! Endpoints that drip, flood, lie, reset or never answer: each has a clear code, in time, and leaves no
//! connection behind.

use bezoar::FailureKind;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Duration, Instant, sleep},
};

use super::{
    LONG, SHORT, deliver, endpoint, failure, message, send,
    server::{Server, hung_up, read_request},
    shown,
};

/// Delivers once and checks what came of it, that it came in time, and that the connection is closed.
async fn check(name: &str, server: Server, timeout: Duration, expected: &str) {
    let (endpoint, start) = (endpoint(&server.url(), timeout), Instant::now());
    let delivered = deliver(&endpoint, message(b"hello".to_vec())).await;
    assert_eq!(shown(&delivered), expected, "{name}");
    assert!(start.elapsed() < timeout + LONG / 4, "{name} took {:?}", start.elapsed());
    drop(endpoint); // and with it the connections that are kept
    server.all_ended().await;
}

/// Answers with `head`, then with `piece` after every `pause`, for as long as anybody listens.
async fn endless(head: &'static str, piece: &'static [u8], pause: Duration) -> Server {
    Server::start(move |mut stream| async move {
        read_request(&mut stream).await;
        let mut written = stream.write_all(head.as_bytes()).await;
        while written.is_ok() {
            if !pause.is_zero() {
                sleep(pause).await; // the pace of the server, not a wait for anything
            }
            written = stream.write_all(piece).await;
        }
    })
    .await
}

const TICK: Duration = Duration::from_millis(10);
const CHUNK: &[u8] = b"2000\r\n";

#[tokio::test]
async fn what_takes_too_long_is_a_timeout() {
    const TIMEOUT: &str = "transient (timeout)";
    let silent = Server::start(|mut stream| async move { hung_up(&mut stream).await }).await;
    check("never answers", silent, SHORT, TIMEOUT).await;
    let drip = endless("HTTP/1.1 200 OK\r\n", b"x", TICK).await;
    check("drips a head", drip, SHORT, TIMEOUT).await;
    let drip = endless("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", b"x", TICK).await;
    check("drips a body", drip, SHORT, TIMEOUT).await;
    let drip = endless("HTTP/1.1 400 No\r\ncontent-length: 1000000\r\n\r\n", b"x", TICK).await;
    check("drips a refusal", drip, SHORT, TIMEOUT).await;
    let drip =
        endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", TICK);
    check("drips chunks", drip.await, SHORT, TIMEOUT).await;
    let more = endless("", b"HTTP/1.1 100 Continue\r\n\r\n", TICK).await;
    check("says continue for ever", more, SHORT, TIMEOUT).await;
}

/// More than the system buffers.
const HUGE: usize = 64 * 1024 * 1024;

/// Says something, and reads nothing more before the delivery is over: then what the system still holds comes
/// out, and the end, because nobody writes any more.
async fn check_deaf(said: &'static [u8], expected: &str) {
    let (over, hint) = watch::channel(false);
    let deaf = Server::start(move |mut stream| {
        let mut hint = hint.clone();
        async move {
            stream.read_exact(&mut [0; 16]).await.unwrap(); // the request has begun
            stream.write_all(said).await.unwrap();
            hint.wait_for(|over| *over).await.unwrap();
            let (mut read, mut buffer) = (0, vec![0; 65_536]);
            while let Ok(some @ 1..) = stream.read(&mut buffer).await {
                read += some;
            }
            assert!(read < HUGE, "all of it was sent");
        }
    })
    .await;
    let endpoint = endpoint(&deaf.url(), SHORT);
    let delivered = deliver(&endpoint, message(vec![b'x'; HUGE])).await;
    assert_eq!(shown(&delivered), expected);
    over.send(true).unwrap();
    deaf.all_ended().await; // with the client still alive
}

#[tokio::test]
async fn one_that_never_reads_is_a_timeout_and_holds_nothing() {
    check_deaf(b"", "transient (timeout)").await;
}

#[tokio::test]
async fn one_that_answers_without_reading_holds_nothing() {
    check_deaf(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "done").await;
    check_deaf(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n", "permanent (http.413)").await;
}

#[tokio::test]
async fn a_flood_is_read_to_its_bound_and_no_further() {
    let flood = |status: &'static str| endless(status, &[b'x'; 8192], Duration::ZERO);
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
    check("floods", flood(ok).await, LONG, "done").await;
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    check("floods without a length", flood(ok).await, LONG, "done").await;
    let bad = "HTTP/1.1 500 No\r\n\r\n";
    check("floods a failure", flood(bad).await, LONG, "external service (http.500)").await;
    let bad = "HTTP/1.1 422 No\r\n\r\n";
    check("floods a refusal", flood(bad).await, LONG, "permanent (http.422)").await;
}

#[tokio::test]
async fn a_flood_of_headers_is_too_large() {
    const TOO_LARGE: &str = "transient (reply.too-large)";
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1_000_000));
    check("one large header", Server::saying(large).await, LONG, TOO_LARGE).await;
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(5_000));
    check("many headers", Server::saying(many).await, LONG, TOO_LARGE).await;
    let endless = endless("HTTP/1.1 200 OK\r\n", b"x: y\r\n", Duration::ZERO).await;
    check("endless headers", endless, LONG, TOO_LARGE).await;
}

#[tokio::test]
async fn a_wrong_length_is_found_out() {
    let closing = |reply: &'static [u8]| {
        Server::start(move |mut stream| async move {
            read_request(&mut stream).await;
            stream.write_all(reply).await.unwrap();
        })
    };
    const TRUNCATED: &str = "transient (reply.truncated)";
    let short = closing(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").await;
    check("less than it says", short, LONG, TRUNCATED).await;
    let short = closing(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhello").await;
    check("a chunk too short", short, LONG, TRUNCATED).await;
    let short = closing(b"HTTP/1.1 422 No\r\ncontent-length: 10\r\n\r\nhello").await;
    check("less of a refusal", short, LONG, TRUNCATED).await;
    let short = closing(b"HTTP/1.1 503 No\r\ncontent-length: 10\r\n\r\nhello").await;
    check("less of a failure", short, LONG, "external service (http.503), uses up no retry").await;
    let long =
        Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 No\r\n\r\n");
    check("more than it says", long.await, LONG, "done").await;
    let body = Server::saying("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello").await;
    check("a body where none may be", body, LONG, "done").await;
}

#[tokio::test]
async fn a_connection_that_ends_early_is_a_reset() {
    const RESET: &str = "transient (reply.reset), uses up no retry";
    async fn reset(mut stream: TcpStream, said: &[u8]) {
        read_request(&mut stream).await;
        stream.write_all(said).await.unwrap();
        stream.set_zero_linger().unwrap();
    }
    let quiet = Server::start(|mut stream| async move { drop(read_request(&mut stream).await) });
    check("closes without a word", quiet.await, LONG, RESET).await;
    let rude = Server::start(|stream| async move { stream.set_zero_linger().unwrap() }).await;
    check("resets before it reads", rude, LONG, RESET).await;
    let mid_head = Server::start(|stream| reset(stream, b"HTTP/1.1 20")).await;
    check("resets within the head", mid_head, LONG, RESET).await;
    let mid_body =
        Server::start(|stream| reset(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"));
    check("resets within the body", mid_body.await, LONG, "transient (reply.reset)").await;
}

#[tokio::test]
async fn a_reply_that_is_not_http_is_malformed() {
    const MALFORMED: &str = "transient (reply.malformed)";
    let replies: [&[u8]; 11] = [
        b"hello\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a number\r\n",
    ];
    for reply in replies {
        let name = String::from_utf8_lossy(reply).into_owned();
        check(&name, Server::saying(reply).await, LONG, MALFORMED).await;
    }
    let frame = [CHUNK, &[b'x'; 0x2000], b"no end of line"].concat();
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = Server::saying([head.as_slice(), &frame].concat()).await;
    check("a chunk without an end", chunks, LONG, MALFORMED).await;
}

#[tokio::test]
async fn a_closed_port_is_a_refused_connection() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let delivered = send(&endpoint(&format!("http://{gone}/"), LONG)).await;
    let failure = failure(delivered);
    assert_eq!((failure.kind, failure.code.as_str()), (FailureKind::Transient, "connect.refused"));
}

#[tokio::test]
async fn an_endpoint_that_misbehaves_in_every_call_leaves_nothing_behind() {
    let silent = Server::start(|mut stream| async move { hung_up(&mut stream).await }).await;
    let endpoint = endpoint(&silent.url(), SHORT / 10);
    for _ in 0..4 {
        assert_eq!(shown(&send(&endpoint).await), "transient (timeout)");
    }
    silent.all_ended().await; // with the client still alive: nothing of that is kept
    assert_eq!(silent.connections().accepted, 4);
}

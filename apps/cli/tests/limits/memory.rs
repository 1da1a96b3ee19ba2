//! Requests that are small to send and large to parse.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::{Lab, support::PATIENCE};

const BODY_LIMIT: usize = 16 * 1024 * 1024;
/// Less than an edit may have, which contains a body in base64.
const EDIT_LIMIT: usize = 22 * 1024 * 1024;
const BATCHES: &str = "/v1/queues/default/batches";
/// How many such requests arrive at a time.
const REQUESTS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_tiny_items_is_refused_before_it_fills_the_memory() {
    let lab = Lab::start();
    let array = format!("[{}1]", "1,".repeat(BODY_LIMIT / 2 - 2));
    for (kind, body) in
        [("application/x-ndjson", "1\n".repeat(BODY_LIMIT / 2)), ("application/json", array)]
    {
        let (body, mut asking) = (Bytes::from(body), JoinSet::new());
        for _ in 0..REQUESTS {
            let (client, body) = (lab.client("operator"), body.clone());
            asking
                .spawn(async move { client.post(BATCHES, &[("content-type", kind)], body).await });
        }
        let statuses: Vec<_> = asking.join_all().await.iter().map(|reply| reply.status).collect();
        // Those for which there is no room right now may try again.
        let expected = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::SERVICE_UNAVAILABLE];
        assert!(statuses.iter().all(|status| expected.contains(status)), "{statuses:?}");
        assert!(statuses.contains(&expected[0]), "{statuses:?}");
        lab.assert_memory(kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_permission_is_refused_before_its_body_is_read() {
    let lab = Lab::start();
    for path in [
        "/v1/replays",
        "/v1/discards",
        "/v1/imports?reason=x",
        "/v1/dead-letters/dl_00000001/edits",
        BATCHES,
    ] {
        let mut stream = TcpStream::connect(lab.program.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer the-token-of-a-viewer\r\n\
             content-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        let answered = timeout(PATIENCE / 4, stream.read_exact(&mut status)).await;
        answered.expect("an answer although the body is missing").unwrap();
        assert_eq!(String::from_utf8_lossy(&status), "HTTP/1.1 403", "{path}");
    }
    let ids = "\"a\",".repeat(22 * 1024 * 1024 / 4);
    let body = Bytes::from(format!("{{\"reason\":\"x\",\"ids\":[{ids}\"a\"]}}"));
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        let (client, body) = (lab.client("viewer"), body.clone());
        // The connection may be closed before all of it is sent, and the answer lost.
        asking.spawn(async move { client.try_call(Method::POST, "/v1/replays", &[], body).await });
    }
    for reply in asking.join_all().await.into_iter().flatten() {
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
    }
    lab.assert_memory("without permission");
}

/// Sends a request several times at once. All are refused with this status, except those that should come back later.
async fn all_refused(
    lab: &Lab,
    ask: (&str, &str),
    body: Bytes,
    expected: StatusCode,
) -> Option<Value> {
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS {
        let (client, path, body) = (lab.client(ask.0), ask.1.to_owned(), body.clone());
        let json = [("content-type", "application/json")];
        asking.spawn(async move { client.post(&path, &json, body).await });
    }
    let mut replies = asking.join_all().await;
    replies.retain(|reply| reply.status != StatusCode::SERVICE_UNAVAILABLE);
    assert!(replies.iter().all(|reply| reply.status == expected), "{replies:?}");
    lab.assert_memory(ask.1);
    replies.first().map(|reply| reply.json())
}

fn headers(count: usize) -> String {
    let headers: Vec<_> = (0..count).map(|number| format!("\"{number:x}\":\"\"")).collect();
    headers.join(",")
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_counted_before_they_fill_the_memory() {
    let lab = Lab::start();
    let one = format!("[{{\"body\":1,\"headers\":{{{}}}}}]", headers(BODY_LIMIT / 13));
    let (ask, status) = (("operator", BATCHES), StatusCode::UNPROCESSABLE_ENTITY);
    let answer = all_refused(&lab, ask, one.into(), status).await.expect("one has its turn");
    let detail = answer["detail"].to_string();
    assert!(detail.contains("headers are too many, at most 1000 are accepted"), "{detail}");
    let item = format!("{{\"body\":1,\"headers\":{{{}}}}}", headers(1_000));
    let many = Bytes::from(format!("[{}]", vec![item; 1_600].join(",")));
    let alone = lab.client("operator").post(BATCHES, &[], many.clone()).await;
    assert_eq!(alone.status, StatusCode::PAYLOAD_TOO_LARGE, "{:?}", alone.body);
    assert!(alone.json()["detail"].to_string().contains("server.body_memory"));
    all_refused(&lab, ask, many, StatusCode::PAYLOAD_TOO_LARGE).await;
}

/// What an admin may send to change a dead letter: a patch, and headers.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_refused_before_it_fills_the_memory() {
    let lab = Lab::start();
    let ask = ("admin", "/v1/dead-letters/dl_00000001/edits");
    let patch = "{\"\":0},".repeat(EDIT_LIMIT / 7);
    let patch = format!("{{\"reason\":\"x\",\"patch\":[{patch}0]}}");
    let answer = all_refused(&lab, ask, patch.into(), StatusCode::PAYLOAD_TOO_LARGE).await;
    assert_eq!(answer.expect("one has its turn")["limit_bytes"], 256 * 1024);
    let edit = headers(EDIT_LIMIT / 15).replace("\"\"", "null");
    let edit = format!("{{\"reason\":\"x\",\"headers\":{{{edit}}}}}");
    let answer = all_refused(&lab, ask, edit.into(), StatusCode::UNPROCESSABLE_ENTITY).await;
    let detail = answer.expect("one has its turn")["detail"].to_string();
    assert!(detail.contains("an edit changes at most 1000 of them"), "{detail}");
}

/// Messages of the maximum size, as many as fit at a time and more.
#[tokio::test(flavor = "multi_thread")]
async fn large_messages_share_the_memory_and_give_it_back() {
    let lab = Lab::start();
    let body = Bytes::from(vec![b'x'; BODY_LIMIT]);
    let mut asking = JoinSet::new();
    for _ in 0..2 * REQUESTS {
        let (client, body) = (lab.client("operator"), body.clone());
        asking.spawn(async move { client.post("/v1/queues/default/messages", &[], body).await });
    }
    let statuses: Vec<_> = asking.join_all().await.iter().map(|reply| reply.status).collect();
    assert!(statuses.contains(&StatusCode::ACCEPTED), "{statuses:?}");
    lab.assert_memory("large messages");
    let started = Instant::now();
    while lab.program.memory_mib("VmRSS") > IDLE_LIMIT_MIB {
        assert!(started.elapsed() < PATIENCE, "{} MiB when idle", lab.program.memory_mib("VmRSS"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the gateway keeps when nothing happens.
const IDLE_LIMIT_MIB: u64 = 80;

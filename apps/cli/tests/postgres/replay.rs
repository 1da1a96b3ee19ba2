//! A replay whose gateway is killed is finished by another one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use test_support::postgres::Postgres;
use tokio::time::{sleep, timeout};

use crate::{
    endpoint::Endpoint,
    evidence::{Evidence, Item},
    lab::{Gateway, quoted},
    support::{PATIENCE, client::Client},
};

const MESSAGES: u64 = 2_000;
/// Slow enough that the gateway is killed in the middle.
const PER_SECOND: u32 = 400;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_replay_of_a_killed_gateway_is_finished_by_another_and_sends_each_message_once() {
    let server = Postgres::start().unwrap();
    let (url, endpoint) = (quoted(&server.url()), Endpoint::start().await);
    // The first one leads before there is a second one.
    let first = Gateway::with_endpoint(&url, endpoint.clone());
    for part in (0..MESSAGES).step_by(1_000) {
        first.send("m", part..part + 1_000).await;
    }
    first.client.until("lab", |row| row["dead"] == MESSAGES).await;
    let second = Gateway::with_endpoint(&url, endpoint.clone());
    endpoint.mend();
    let path = start_replay(&second.client).await;
    endpoint.until(MESSAGES / 4).await;
    first.program.kill();
    let killed = Instant::now();
    let sent = second.client.get(&path).await.json()["processed"].as_u64().unwrap();
    assert!(sent < MESSAGES, "it was killed in the middle");
    until(&second.client, &path, |it| it["processed"].as_u64() > Some(sent)).await;
    let took = killed.elapsed();
    println!("{sent} of {MESSAGES} were sent; the other one went on after {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    until(&second.client, &path, |it| it["state"] == "ended").await;
    let evidence = gather(&second.client, &path, &endpoint).await;
    println!("{evidence}");
    assert_eq!(evidence.problems(), [""; 0]);
}

async fn start_replay(client: &Client) -> String {
    let wanted =
        json!({ "reason": "mended", "filter": {}, "expect": MESSAGES, "rate": PER_SECOND });
    let reply = client.post("/v1/replays", &[], Bytes::from(wanted.to_string())).await;
    assert_eq!(reply.status, 202, "{}", reply.json());
    format!("/v1/replays/{}", reply.json()["id"].as_str().unwrap())
}

async fn until(client: &Client, path: &str, fits: impl Fn(&Value) -> bool) {
    let looking = async {
        while !fits(&client.get(path).await.json()) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("the replay gets there");
}

async fn gather(client: &Client, path: &str, endpoint: &Endpoint) -> Evidence {
    let mut items = Vec::new();
    loop {
        let page = client.get(&format!("{path}/messages?after={}", items.len())).await.json();
        items.extend(page["items"].as_array().unwrap().iter().map(Item::read));
        if page["next"].is_null() {
            break;
        }
    }
    let row = client.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    let replay = path.rsplit('/').next().unwrap().to_owned();
    let dead = row["dead"].as_u64().unwrap();
    Evidence { replay, messages: MESSAGES, items, dead, calls: endpoint.calls() }
}

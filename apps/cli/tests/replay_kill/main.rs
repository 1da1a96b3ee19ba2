//! A replay that is cut off again and again sends every message exactly once, and knows what became of each.
//!
//! The real program has thousands of dead letters, replays all of them, and is killed with -9 at random moments
//! meanwhile. In the end its own journal of the replay is compared with what the endpoint saw.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod endpoint;
mod evidence;
mod hasty;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use bytes::Bytes;
use endpoint::Endpoint;
use evidence::{Evidence, Item};
use serde_json::{Value, json};
use support::{client::Client, program::Program};
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_is_killed_sends_each_message_once_and_knows_every_outcome() {
    let messages = from_environment("BEZOAR_REPLAY_MESSAGES").unwrap_or(2_000);
    let kills = from_environment("BEZOAR_REPLAY_KILLS").unwrap_or(6);
    let seed = from_environment("BEZOAR_KILL_SEED").unwrap_or_else(rand::random);
    println!("seed {seed}");
    let (folder, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start().await);
    configure(folder.path(), endpoint.port);
    let program = filled(&folder, messages).await;
    endpoint.mend();
    let replay = start_replay(&client(&program, &folder), messages).await;
    let program = kill_meanwhile(program, &folder, &endpoint, (messages, kills), seed).await;
    let evidence = gather(&client(&program, &folder), &replay, &endpoint, messages).await;
    println!("{kills} kills: {evidence}");
    assert_eq!(evidence.problems(), [""; 0]);
    assert!(evidence.redelivered() > 0 || kills < 5, "killed under load: {evidence}");
}

/// The negative control: who keeps only in memory what was sent must be caught.
#[test]
fn a_replay_that_forgets_what_it_sent_is_caught() {
    let problems = hasty::replay(1_000, 5).problems();
    assert!(problems.iter().any(|it| it.contains("was sent twice")), "{problems:?}");
    assert_eq!(hasty::replay(1_000, 0).problems(), [""; 0]);
}

fn configure(folder: &Path, port: u16) {
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        [store]
        url = "sqlite:bezoar.db"
        [[route]]
        name = "lab"
        from = "lab"
        to = "http://127.0.0.1:{port}/"
        concurrency = 32
        lease = "1s"
        max_deliveries = 100
        breaker = {{ failures = 1000 }}
        [log]
        level = "warn"
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
}

fn client(program: &Program, folder: &TempDir) -> Client {
    Client::of_folder(program.address, folder.path())
}

/// A gateway whose endpoint has refused so many messages.
async fn filled(folder: &TempDir, messages: u64) -> Program {
    let program = Program::up(folder.path());
    let client = client(&program, folder);
    for first in (0..messages).step_by(1_000) {
        let numbers = first..messages.min(first + 1_000);
        let items: Vec<_> =
            numbers.map(|it| json!({ "id": format!("m-{it}"), "body": it })).collect();
        let body = Bytes::from(serde_json::to_vec(&items).unwrap());
        let reply = client.post("/v1/queues/lab/batches", &[], body).await;
        assert_eq!(reply.json()["accepted"], items.len());
    }
    client.until("lab", |row| row["dead"] == messages).await;
    program
}

async fn start_replay(client: &Client, messages: u64) -> Value {
    let wanted = json!({ "reason": "mended", "filter": {}, "expect": messages, "canary": 5 });
    let reply = client.post("/v1/replays", &[], Bytes::from(wanted.to_string())).await;
    assert_eq!(reply.status, 202, "{}", reply.json());
    reply.json()
}

/// Kills it about evenly over the replay, but at moments that chance picks.
async fn kill_meanwhile(
    mut program: Program,
    folder: &TempDir,
    endpoint: &Endpoint,
    (messages, kills): (u64, u64),
    seed: u64,
) -> Program {
    use rand::{RngExt as _, SeedableRng as _};
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let part = messages / (kills + 1);
    for kill in 0..kills {
        endpoint.until(kill * part + random.random_range(1..=part)).await;
        program.kill();
        program = Program::up(folder.path());
    }
    program
}

/// What the program's journal says, and what the endpoint saw.
async fn gather(client: &Client, replay: &Value, endpoint: &Endpoint, messages: u64) -> Evidence {
    let path = format!("/v1/replays/{}", replay["id"].as_str().unwrap());
    let ended = async {
        while client.get(&path).await.json()["state"] != "ended" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, ended).await.expect("the replay ends");
    let mut items = Vec::new();
    loop {
        let page = client.get(&format!("{path}/messages?after={}", items.len())).await.json();
        items.extend(page["items"].as_array().unwrap().iter().map(Item::read));
        if page["next"].is_null() {
            break;
        }
    }
    let row = client.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0).await;
    let (replay, dead) = (replay["id"].as_str().unwrap().to_owned(), row["dead"].as_u64().unwrap());
    Evidence { replay, messages, items, dead, calls: endpoint.calls() }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

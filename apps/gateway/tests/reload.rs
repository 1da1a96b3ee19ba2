//! A reload takes effect as a whole or not at all, under load and with a store that cannot be read.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use http::{Method, StatusCode};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use support::{Endpoint, Lab, PATIENCE, route};

const SENDER: &str = "token-of-the-sender";

/// What a configuration has.
#[derive(Debug, Clone, Copy, Default)]
struct World {
    /// Another one revokes the token before it.
    token: u32,
    /// Another one replaces the route.
    timeout: u32,
    /// Whether there is a second route.
    second: bool,
    /// Whether it needs a transport that only a restart brings.
    unreachable: bool,
}

impl World {
    fn token(&self) -> String {
        format!("token-of-ann-{:04}", self.token)
    }

    fn text(&self, port: u16) -> String {
        let mut text = route(port, &format!("timeout = \"{}s\"", 10 + self.timeout));
        let second = |name: &str, from: &str| {
            format!(
                "[[route]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"http://127.0.0.1:{port}/\"\n"
            )
        };
        if self.second {
            text += &second("second", "extra");
        }
        if self.unreachable {
            text += "[transports.new]\nurl = \"amqp://localhost:1/\"\n";
            text += &second("third", "new/results");
        }
        let token = self.token();
        text + &format!(
            "[[token]]\nname = \"ann\"\nrole = \"admin\"\nsecret = \"{token}\"\n\
             [[token]]\nname = \"sender\"\nrole = \"operator\"\nsecret = \"{SENDER}\"\n"
        )
    }
}

async fn asked(lab: &Lab, token: &str) -> (StatusCode, Value) {
    let authorization = format!("Bearer {token}");
    lab.call(Method::GET, "/v1/queues", &[("authorization", &authorization)], "".into()).await
}

/// The routes are those of this world, and nobody else's token is valid.
async fn check(lab: &Lab, world: World, revoked: Option<u32>) {
    if let Some(token) = revoked {
        let (status, _) = asked(lab, &World { token, ..world }.token()).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{world:?}");
    }
    let (status, queues) = asked(lab, &world.token()).await;
    assert_eq!(status, StatusCode::OK, "{world:?}");
    let routes = queues.as_array().unwrap().iter().filter_map(|row| row["route"]["name"].as_str());
    let expected: &[_] = if world.second { &["second", "results"] } else { &["results"] };
    assert_eq!(routes.collect::<Vec<_>>(), expected, "{world:?}");
}

/// The store's file has another name until this is dropped.
struct Unreadable(PathBuf);

impl Unreadable {
    fn new(lab: &Lab) -> Self {
        let path = lab.folder.path().join("bezoar.db");
        std::fs::rename(&path, path.with_extension("away")).unwrap();
        Self(path)
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        std::fs::rename(self.0.with_extension("away"), &self.0).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_changes_while_the_store_is_unreadable_is_not_gone() {
    let (first, second) = (Endpoint::start().await, Endpoint::start().await);
    let before = World::default();
    let lab = Lab::start(&before.text(first.port)).await.with_token(&before.token());
    let after = World { token: 1, ..before };
    let unreadable = Unreadable::new(&lab);
    lab.gateway.reload(lab.config(&after.text(second.port))).await.unwrap();
    let (status, _) = asked(&lab, &before.token()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "a revoked token is refused");
    drop(unreadable);
    let lab = lab.with_token(&after.token());
    check(&lab, after, Some(0)).await;
    lab.send("lab", &[], "x").await;
    assert_eq!(second.requests(1).await[0].1, "x");
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_cannot_take_effect_changes_nothing() {
    let (first, second) = (Endpoint::start().await, Endpoint::start().await);
    let before = World::default();
    let lab = Lab::start(&before.text(first.port)).await.with_token(&before.token());
    let unreadable = Unreadable::new(&lab);
    let after = World { token: 1, timeout: 1, second: true, ..before };
    let refused = lab.gateway.reload(lab.config(&after.text(second.port))).await;
    assert!(refused.is_err(), "the queue of the second route cannot be created");
    drop(unreadable);
    check(&lab, before, Some(1)).await;
    let after = World { unreachable: true, ..after };
    let refused = lab.gateway.reload(lab.config(&after.text(second.port))).await.unwrap_err();
    assert_eq!(refused.to_string(), "transports.new requires a restart");
    check(&lab, before, Some(1)).await;
    lab.send("lab", &[], "x").await;
    assert_eq!(first.requests(1).await[0].1, "x");
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_outlives_a_reload() {
    let endpoint = Endpoint::start().await;
    let before = World::default();
    let lab = Lab::start(&before.text(endpoint.port)).await.with_token(&before.token());
    assert_eq!(lab.post("/v1/routes/results/pause", &[], "").await.0, StatusCode::OK);
    let after = World { timeout: 1, ..before };
    lab.gateway.reload(lab.config(&after.text(endpoint.port))).await.unwrap();
    lab.send("lab", &[], "x").await;
    lab.until("lab", |row| row["ready"] == 1 && row["route"]["paused"].is_string()).await;
    assert_eq!(lab.post("/v1/routes/results/resume", &[], "").await.0, StatusCode::OK);
    endpoint.requests(1).await;
    lab.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_reloads_under_load_lose_nothing() {
    reload_under_load(20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_random_reloads_under_load_lose_nothing() {
    reload_under_load(200).await;
}

async fn reload_under_load(reloads: usize) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let endpoint = Endpoint::start().await;
    let mut world = World::default();
    let lab = Lab::start(&world.text(endpoint.port)).await.with_token(SENDER);
    let (lab, stop) = (Arc::new(lab), Arc::new(AtomicBool::new(false)));
    let sent = Arc::new(AtomicUsize::new(0));
    let sending = tokio::spawn(send(lab.clone(), sent.clone(), stop.clone()));
    for turn in 0..reloads {
        let until = sent.load(Ordering::SeqCst) + random.random_range(0..20);
        reached(&sent, until).await;
        let before = world;
        let broken = random.random_ratio(1, 5);
        world.unreachable = broken;
        world.token += u32::from(random.random::<bool>() || turn == 0);
        world.timeout += u32::from(random.random::<bool>());
        world.second = random.random();
        let reload = lab.gateway.reload(lab.config(&world.text(endpoint.port))).await;
        assert_eq!(reload.is_err(), broken, "{world:?}");
        let revoked = if broken { world.token } else { before.token };
        if broken {
            world = before;
        }
        check(&lab, world, (revoked != world.token).then_some(revoked)).await;
    }
    stop.store(true, Ordering::SeqCst);
    sending.await.unwrap();
    let sent = sent.load(Ordering::SeqCst);
    lab.until("lab", |row| row["ready"] == 0 && row["in_flight"] == 0 && row["delayed"] == 0).await;
    assert_eq!(endpoint.distinct_done(), sent, "every accepted message was delivered");
}

/// Sends one message after the other.
async fn send(lab: Arc<Lab>, sent: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        lab.send("lab", &[], "x").await;
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

async fn reached(sent: &AtomicUsize, count: usize) {
    let waiting = async {
        while sent.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("messages are sent");
}

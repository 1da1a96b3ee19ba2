//! What is measured.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bench_support::{Measurement, Percentiles, Place};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    bare,
    endpoint::Endpoint,
    gateway::Gateway,
    producers::{Client, Sent, body, post_all},
};

pub(crate) const CLIENT: &str = "limit: bare HTTP client to the endpoint";
pub(crate) const BARE: &str = "limit: bare HTTP, SQLite and HTTP";
pub(crate) const END_TO_END: &str = "bezoar: accept, deliver, done";
pub(crate) const DELIVER: &str = "bezoar: deliver what waits, done";
pub(crate) const REPLAY: &str = "bezoar: replay dead letters, done";
pub(crate) const BESIDE: &str = "bezoar: the same beside a route whose endpoint hangs";

const CONNECTIONS: u32 = 64;
const CONCURRENCY: u32 = 256;
/// It exists without being configured.
const QUEUE: &str = "default";
const NO_ROUTE: &str = "";

/// What one run end to end has shown.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) rate: Measurement,
    pub(crate) acceptance: Percentiles,
    pub(crate) delivery: Percentiles,
}

/// A client that posts straight to the endpoint: what HTTP alone allows.
pub(crate) async fn bare_client(count: u64) -> Result<Measurement> {
    let epoch = Instant::now();
    let endpoint = Endpoint::start(epoch, count).await?;
    post_all(&endpoint.target(), CONNECTIONS, count, epoch).await?;
    Ok(rate(CLIENT, count, epoch))
}

/// The least that takes, keeps, posts and removes messages.
pub(crate) async fn bare_gateway(place: &Place, count: u64) -> Result<Measurement> {
    let (folder, epoch) = (place.scratch()?, Instant::now());
    let endpoint = Endpoint::start(epoch, count).await?;
    let gateway = bare::start(folder.path(), &endpoint.target(), CONCURRENCY).await?;
    let started = Instant::now();
    post_all(&gateway, CONNECTIONS, count, epoch).await?;
    endpoint.arrived(count).await?;
    Ok(rate(BARE, count, started))
}

/// Accepted by HTTP, delivered by HTTP, done; until the queue is empty.
pub(crate) async fn end_to_end(place: &Place, count: u64) -> Result<Seen> {
    run(place, END_TO_END, count, "").await
}

/// The same while all that another route has in flight hangs at its endpoint.
pub(crate) async fn beside_a_hanging_one(place: &Place, count: u64) -> Result<Seen> {
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let port = silent.local_addr()?.port();
    run(place, BESIDE, count, &route("hanging", port)).await
}

async fn run(place: &Place, name: &str, count: u64, more: &str) -> Result<Seen> {
    let (folder, epoch) = (place.scratch()?, Instant::now());
    let endpoint = Endpoint::start(epoch, count).await?;
    let routes = format!("{}{more}", route(QUEUE, endpoint.port));
    let gateway = Gateway::start(folder.path(), &routes).await?;
    if !more.is_empty() {
        post_all(&gateway.target("hanging"), 1, CONNECTIONS.into(), epoch).await?;
    }
    let started = Instant::now();
    let sent = post_all(&gateway.target(QUEUE), CONNECTIONS, count, epoch).await?;
    endpoint.arrived(count).await?;
    gateway.drained(QUEUE, 0).await?;
    let rate = rate(name, count, started);
    drop(gateway);
    Ok(seen(rate, &sent, &endpoint))
}

fn seen(rate: Measurement, sent: &[Sent], endpoint: &Endpoint) -> Seen {
    let acceptance = sent.iter().map(|it| it.accepted - it.begun).collect();
    let delivery =
        sent.iter().map(|it| endpoint.arrival(it.number).saturating_sub(it.begun)).collect();
    Seen { rate, acceptance, delivery }
}

/// Delivers so many that wait, and replays so many that are dead: until all are done.
pub(crate) async fn replay(place: &Place, count: u64) -> Result<[Measurement; 2]> {
    let folder = place.scratch()?;
    let endpoint = Endpoint::start(Instant::now(), 2 * count).await?;
    let gateway = Gateway::start(folder.path(), &route(QUEUE, endpoint.port)).await?;
    let mut client = Client::connect(&gateway.at("/v1/routes/default/pause".to_owned())).await?;
    client.post(Bytes::new()).await?;
    fill(&gateway, 0..count).await?;
    let started = Instant::now();
    client.send("/v1/routes/default/resume", Bytes::new()).await?;
    endpoint.arrived(count).await?;
    gateway.drained(QUEUE, 0).await?;
    let delivered = rate(DELIVER, count, started);
    endpoint.set_refusing(true);
    fill(&gateway, count..2 * count).await?;
    gateway.drained(QUEUE, count).await?;
    endpoint.set_refusing(false);
    let started = Instant::now();
    let wanted = json!({ "reason": "benchmark", "filter": {}, "expect": count });
    let begun = client.send("/v1/replays", wanted.to_string().into()).await?;
    let begun: Value = serde_json::from_slice(&begun)?;
    let path = format!("/v1/replays/{}", begun["id"].as_str().context("it has an id")?);
    gateway.until(&path, |replay| replay["state"] == "ended").await?;
    let replayed = rate(REPLAY, count, started);
    endpoint.arrived(2 * count).await?;
    Ok([delivered, replayed])
}

/// From the start of the process to the arrival of a message that was waiting.
pub(crate) async fn start(place: &Place) -> Result<Duration> {
    let folder = place.scratch()?;
    let gateway = Gateway::start(folder.path(), NO_ROUTE).await?;
    Client::connect(&gateway.target(QUEUE)).await?.post(body(0)).await?;
    gateway.stop().await?;
    let endpoint = Endpoint::start(Instant::now(), 1).await?;
    let started = Instant::now();
    let gateway = Gateway::start(folder.path(), &route(QUEUE, endpoint.port)).await?;
    endpoint.arrived(1).await?;
    let took = started.elapsed();
    gateway.stop().await?;
    Ok(took)
}

/// MiB that a gateway holds after it has delivered `delivered` of so many.
pub(crate) async fn memory(place: &Place, backlog: u64, delivered: u64) -> Result<f64> {
    let folder = place.scratch()?;
    let gateway = Gateway::start(folder.path(), NO_ROUTE).await?;
    fill(&gateway, 0..backlog).await?;
    gateway.stop().await?;
    let endpoint = Endpoint::start(Instant::now(), backlog).await?;
    let gateway = Gateway::start(folder.path(), &route(QUEUE, endpoint.port)).await?;
    endpoint.arrived(delivered).await?;
    gateway.resident_mib()
}

async fn fill(gateway: &Gateway, all: Range<u64>) -> Result<()> {
    const BATCH: u64 = 1_000;
    let mut client = Client::connect(&gateway.at(format!("/v1/queues/{QUEUE}/batches"))).await?;
    for first in all.clone().step_by(usize::try_from(BATCH)?) {
        let numbers = first..all.end.min(first + BATCH);
        let items = numbers.map(|number| json!({ "body_base64": STANDARD.encode(body(number)) }));
        client.post(serde_json::to_vec(&items.collect::<Vec<_>>())?.into()).await?;
    }
    Ok(())
}

fn route(queue: &str, port: u16) -> String {
    let to = format!("http://127.0.0.1:{port}/");
    format!(
        "[[route]]\nname = \"{queue}\"\nfrom = \"{queue}\"\nto = \"{to}\"\nconcurrency = {CONCURRENCY}\n"
    )
}

fn rate(name: &str, count: u64, started: Instant) -> Measurement {
    Measurement::new(name, count as f64 / started.elapsed().as_secs_f64())
}

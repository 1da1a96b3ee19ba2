//! A worker with the operator's API in the same process: queues, dead letters, causes, replays and the audit log by HTTP,
//! on the worker's own database. It asks that API what an operator would ask, replays a dead letter, and ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use bezoar::{Failure, Json, Router, Shutdown, State, TypedMessage, Worker};
use bezoar_gateway::{
    Gateway,
    config::{self, Sources},
    telemetry::Metrics,
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize)]
struct LabResult {
    value: f64,
}

impl TypedMessage for LabResult {
    const TYPE: &'static str = "lab.result";
}

/// An archive that refuses negative values until somebody repairs it.
#[derive(Clone, Default)]
struct Archive {
    repaired: Arc<AtomicBool>,
}

async fn store(
    Json(result): Json<LabResult>,
    State(archive): State<Archive>,
) -> Result<(), Failure> {
    if result.value < 0.0 && !archive.repaired.load(Ordering::SeqCst) {
        return Err(Failure::permanent("a negative value"));
    }
    println!("stored a result");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("bezoar-embedded-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let url = format!("sqlite:{}", folder.join("lab.db").display());

    // The worker, as in any program.
    let bezoar = bezoar::connect(&url).await?;
    bezoar.provision("lab").await?;
    let (archive, shutdown) = (Archive::default(), Shutdown::default());
    let worker = Worker::new("lab", Router::with_state(archive.clone()).on_message(store))?;
    let running = tokio::spawn({
        let (bezoar, shutdown) = (bezoar.clone(), shutdown.clone());
        async move { bezoar.run_until(worker, shutdown).await }
    });

    // The operator's API on the same database. It has no routes, so it delivers nothing.
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = {url:?}\n[[queue]]\nname = \"lab\"\n"
    );
    let sources = Sources {
        file: Some(("embedded".into(), config)),
        environment: Vec::new(),
        flags: Vec::new(),
    };
    let config = config::load(&sources, &config::read_secret)?.config;
    let gateway = Gateway::start(config, Metrics::local()).await?;
    let operator = Operator {
        url: format!("http://{}", gateway.address()),
        token: bezoar_gateway::token::read(&folder.join(bezoar_gateway::token::FILE))?,
    };
    println!("the operator's API listens");

    bezoar.send_message("lab", &LabResult { value: -1.0 }).await?;
    let list = operator.until("/v1/dead-letters", |list| list["items"][0].is_object()).await?;
    println!("dead letter: {}", list["items"][0]["reason"].as_str().context("a text")?);

    archive.repaired.store(true, Ordering::SeqCst);
    let replay = json!({ "filter": {}, "reason": "archive repaired" });
    let replay = operator.ask(Method::POST, "/v1/replays", Some(replay)).await?;
    let path = format!("/v1/replays/{}", replay["id"].to_string().trim_matches('"'));
    let replay = operator.until(&path, |replay| replay["state"] == "ended").await?;
    println!("replayed {}, completed {}", replay["total"], replay["completed"]);

    gateway.stop().await;
    shutdown.drain();
    running.await??;
    drop(bezoar);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Somebody who asks the API.
struct Operator {
    url: String,
    token: String,
}

impl Operator {
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let reply = client.request(request.body(Full::<Bytes>::from(body))?).await?;
        let (status, body) = (reply.status(), reply.into_body().collect().await?.to_bytes());
        anyhow::ensure!(status.is_success(), "{path}: {status} {body:?}");
        Ok(serde_json::from_slice(&body)?)
    }

    /// Asks until the answer says so.
    async fn until(&self, path: &str, says: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let answer = self.ask(Method::GET, path, None).await?;
            if says(&answer) {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

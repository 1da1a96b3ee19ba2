//! A gateway, an endpoint and a client, all real and on this machine.

#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses what it needs")]

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, routing::post};
use bezoar_gateway::{
    Gateway,
    config::{self, Config, Sources},
    telemetry::Metrics,
};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle, time::timeout};

/// How long anything may take here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Any port that only this machine reaches.
const LOOPBACK: &str = "127.0.0.1:0";

/// An endpoint that answers as it is told, and remembers what it got.
#[derive(Debug, Clone, Default)]
pub(crate) struct Endpoint {
    got: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    answers: Arc<Mutex<VecDeque<StatusCode>>>,
    /// Whether the first request of each message is answered with 500; and those that were answered with 200.
    first_fails: Arc<AtomicBool>,
    done: Arc<Mutex<HashSet<String>>>,
    changed: Arc<Notify>,
    pub(crate) port: u16,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        Self::start_on(0).await.0
    }

    /// On a given port, with a handle that ends it.
    pub(crate) async fn start_on(port: u16) -> (Self, JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let endpoint = Self { port, ..Self::default() };
        let router = Router::new().route("/", post(take)).with_state(endpoint.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (endpoint, serving)
    }

    /// What the next requests are answered with; 200 after that.
    pub(crate) fn answers(&self, statuses: impl IntoIterator<Item = u16>) {
        let statuses = statuses.into_iter().map(|status| StatusCode::from_u16(status).unwrap());
        self.answers.lock().unwrap().extend(statuses);
    }

    /// From now on the first attempt of each message fails.
    pub(crate) fn fails_first(&self) {
        self.first_fails.store(true, Ordering::SeqCst);
    }

    /// How many messages were answered with 200.
    pub(crate) fn distinct_done(&self) -> usize {
        self.done.lock().unwrap().len()
    }

    /// Waits for so many requests in all.
    pub(crate) async fn requests(&self, count: usize) -> Vec<(HeaderMap, Bytes)> {
        let enough = async {
            loop {
                let changed = self.changed.notified();
                let got = self.got.lock().unwrap().clone();
                if got.len() >= count {
                    return got;
                }
                changed.await;
            }
        };
        timeout(PATIENCE, enough).await.expect("the endpoint is called")
    }

    pub(crate) fn so_far(&self) -> usize {
        self.got.lock().unwrap().len()
    }
}

/// The status that a body asks for, as `answer 500`.
fn asked_for(body: &Bytes) -> Option<StatusCode> {
    std::str::from_utf8(body).ok()?.strip_prefix("answer ")?.parse().ok()
}

async fn take(State(endpoint): State<Endpoint>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (id, first) = (text("bezoar-id").to_owned(), text("bezoar-attempt") == "1");
    let asked = asked_for(&body);
    endpoint.got.lock().unwrap().push((headers, body));
    endpoint.changed.notify_waiters();
    if let Some(status) = asked {
        return status;
    }
    if first && endpoint.first_fails.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let answer = endpoint.answers.lock().unwrap().pop_front().unwrap_or(StatusCode::OK);
    if answer == StatusCode::OK {
        endpoint.done.lock().unwrap().insert(id);
    }
    answer
}

/// A gateway in a folder of its own.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) gateway: Gateway,
    pub(crate) folder: TempDir,
    pub(crate) token: String,
}

impl Lab {
    /// With this configuration; where it listens and keeps its messages is added.
    pub(crate) async fn start(text: &str) -> Self {
        Self::start_at(LOOPBACK, text).await
    }

    /// The same on another address.
    pub(crate) async fn start_at(listen: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = parse(&folder, listen, text);
        let gateway = Gateway::start(config, Metrics::local()).await.unwrap();
        // There is none where tokens are configured.
        let token = bezoar_gateway::token::read(&folder.path().join("token")).unwrap_or_default();
        Self { gateway, folder, token }
    }

    /// The same, asked by somebody else.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The same after a restart with this configuration.
    pub(crate) async fn restarted(self, text: &str) -> Self {
        self.gateway.stop().await;
        let config = parse(&self.folder, LOOPBACK, text);
        let gateway = Gateway::start(config, Metrics::local()).await.unwrap();
        Self { gateway, folder: self.folder, token: self.token }
    }

    pub(crate) fn config(&self, text: &str) -> Config {
        parse(&self.folder, LOOPBACK, text)
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call(Method::GET, path, &[], Bytes::new()).await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (StatusCode, Value) {
        self.call(Method::POST, path, headers, Bytes::copy_from_slice(body.as_bytes())).await
    }

    pub(crate) async fn send(&self, queue: &str, headers: &[(&str, &str)], body: &str) {
        let (status, answer) =
            self.post(&format!("/v1/queues/{queue}/messages"), headers, body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> (StatusCode, Value) {
        let (status, _, answer) = self.call_with_headers(method, path, headers, body).await;
        (status, answer)
    }

    /// The same, with the headers of the answer.
    pub(crate) async fn call_with_headers(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> (StatusCode, HeaderMap, Value) {
        let url = format!("http://{}{path}", self.gateway.address());
        let mut request = Request::builder().method(method).uri(url);
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let client = Client::builder(TokioExecutor::new()).build_http();
        let reply = client.request(request.body(Full::new(body)).unwrap());
        let reply = timeout(PATIENCE, reply).await.expect("it answers").unwrap();
        let (status, headers) = (reply.status(), reply.headers().clone());
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        (status, headers, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Waits until messages were tried so many times, however that ended.
    pub(crate) async fn until_tried(&self, times: f64) {
        let looking = async {
            loop {
                let text = self.plain_text("/metrics").await;
                let tries = text.lines().filter_map(|line| {
                    let (name, value) = line.rsplit_once(' ')?;
                    let counts = name.starts_with("bezoar_delivery_duration_seconds_count{");
                    value.parse::<f64>().ok().filter(|_| counts)
                });
                if tries.sum::<f64>() >= times {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("messages are tried");
    }

    /// Waits until somebody did this.
    pub(crate) async fn until_audited(&self, verb: &str) {
        let looking = async {
            loop {
                let (_, audit) = self.get("/v1/audit").await;
                if audit.to_string().contains(&format!("\"verb\":\"{verb}\"")) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("it is audited");
    }

    pub(crate) async fn plain_text(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.gateway.address());
        let request = Request::builder().uri(url);
        let request = request.header("authorization", format!("Bearer {}", self.token));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let reply = client.request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Waits until the queue looks like this.
    pub(crate) async fn until(&self, queue: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let (_, queues) = self.get("/v1/queues").await;
                let row =
                    queues.as_array().unwrap().iter().find(|row| row["queue"] == queue).cloned();
                if let Some(row) = row.filter(|row| fits(row)) {
                    return row;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the queue gets there")
    }
}

fn parse(folder: &TempDir, listen: &str, text: &str) -> Config {
    let store = format!("sqlite:{}", folder.path().join("bezoar.db").display());
    let sources = Sources {
        file: Some(("bezoar.toml".into(), text.to_owned())),
        environment: Vec::new(),
        flags: vec![
            ("server.listen".to_owned(), listen.to_owned()),
            ("store.url".to_owned(), store),
        ],
    };
    config::load(&sources, &|_| Err("no secrets here".to_owned())).unwrap().config
}

/// A route from the queue `lab` to the endpoint, with quick retries.
pub(crate) fn route(port: u16, more: &str) -> String {
    format!(
        r#"
        [[route]]
        name = "results"
        from = "lab"
        to = "http://127.0.0.1:{port}/"
        retry = {{ max_retries = 2, first = "10ms", multiplier = 1.0, max = "1s", jitter = 0.0 }}
        breaker = {{ failures = 100, pause = "100ms", max_pause = "200ms" }}
        {more}
        "#
    )
}

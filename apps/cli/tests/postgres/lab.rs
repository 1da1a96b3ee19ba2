//! Gateways on one store, each in a folder of its own and with an endpoint of its own.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::{
    endpoint::Endpoint,
    support::{PATIENCE, client::Client, program::Program},
};

/// A gateway and its endpoint.
pub(crate) struct Gateway {
    pub(crate) program: Program,
    pub(crate) endpoint: Endpoint,
    pub(crate) client: Client,
    _folder: TempDir,
}

impl Gateway {
    /// A gateway whose endpoint takes everything.
    pub(crate) async fn start(store: &str) -> Self {
        let endpoint = Endpoint::start().await;
        endpoint.mend();
        Self::with_endpoint(store, endpoint)
    }

    pub(crate) fn with_endpoint(store: &str, endpoint: Endpoint) -> Self {
        let folder = tempfile::tempdir().unwrap();
        configure(folder.path(), store, endpoint.port);
        let program = Program::up(folder.path());
        let client = Client::of_folder(program.address, folder.path());
        Self { program, endpoint, client, _folder: folder }
    }

    /// Waits until its route looks like this.
    pub(crate) async fn until_route(&self, fits: impl Fn(&Value) -> bool) {
        let looking = async {
            while !fits(&self.client.get("/v1/routes").await.json()["items"][0]) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the route gets there");
    }

    /// Sends messages with these numbers, which the store accepts once each.
    pub(crate) async fn send(&self, prefix: &str, numbers: std::ops::Range<u64>) {
        let count = numbers.end - numbers.start;
        let items: Vec<_> =
            numbers.map(|it| json!({ "id": format!("{prefix}-{it}"), "body": it })).collect();
        let body = Bytes::from(serde_json::to_vec(&items).unwrap());
        let reply = self.client.post("/v1/queues/lab/batches", &[], body).await;
        assert_eq!(reply.json()["accepted"], count, "{}", reply.json());
    }
}

/// `store` is the URL and other keys of the store.
pub(crate) fn configure(folder: &Path, store: &str, port: u16) {
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        [store]
        url = {store}
        folder = "."
        [[route]]
        name = "lab"
        from = "lab"
        to = "http://127.0.0.1:{port}/"
        concurrency = 16
        lease = "1s"
        max_deliveries = 100
        breaker = {{ failures = 1000 }}
        [log]
        level = "warn"
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
}

/// The URL as it is written in a configuration.
pub(crate) fn quoted(url: &str) -> String {
    format!("{url:?}")
}

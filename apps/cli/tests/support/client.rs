//! A client that keeps its connections.

use std::{net::SocketAddr, path::Path};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::time::timeout;

use super::PATIENCE;

/// A client of one gateway, with its token. Clones share connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    token: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        let http = legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { http, address, token: token.to_owned() }
    }

    /// With the token that a gateway without one has made for itself.
    pub(crate) fn of_folder(address: SocketAddr, folder: &Path) -> Self {
        Self::new(address, std::fs::read_to_string(folder.join("token")).unwrap().trim())
    }

    /// `None` if no answer came.
    pub(crate) async fn try_call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Option<Reply> {
        let mut request =
            Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        if !headers.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answered = async {
            let reply = self.http.request(request.body(Full::new(body)).unwrap()).await.ok()?;
            let status = reply.status();
            Some(Reply { status, body: reply.into_body().collect().await.ok()?.to_bytes() })
        };
        timeout(PATIENCE, answered).await.expect("it answers, or closes the connection")
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.try_call(Method::GET, path, &[], Bytes::new()).await.expect("it answers")
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Reply {
        self.try_call(Method::POST, path, headers, body).await.expect("it answers")
    }

    /// Waits until the queue looks like this.
    pub(crate) async fn until(&self, queue: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let looking = async {
            loop {
                let rows = self.get("/v1/queues").await.json();
                let row = rows.as_array().unwrap().iter().find(|row| row["queue"] == queue);
                if let Some(row) = row.filter(|row| fits(row)) {
                    return row.clone();
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, looking).await.expect("the queue gets there")
    }
}

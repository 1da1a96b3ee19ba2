//! The gateway's HTTP API, as the operator's commands see it.

mod connection;
mod error;
mod problem;
mod reply;
mod retry;
mod tls;
mod token;
mod url;

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::timeout;

pub(crate) use connection::Connection;
pub(crate) use error::ClientError;
pub(crate) use problem::Problem;
pub(crate) use reply::Reply;
pub(crate) use retry::Retry;
pub(crate) use url::{Url, encode, path};

/// How long a question may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long messages may take to be sent and stored.
const UPLOAD_DEADLINE: Duration = Duration::from_secs(60);
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Speaks with one gateway over connections that are kept.
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Url,
    token: Option<HeaderValue>,
    answered: AtomicBool,
}

impl Client {
    /// A client without connections yet.
    pub(crate) fn new(url: Url, token: Option<HeaderValue>) -> anyhow::Result<Self> {
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(tls::connector(&url)?);
        Ok(Self { http, url, token, answered: AtomicBool::new(false) })
    }

    /// Whom it speaks with.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Asks for something.
    pub(crate) async fn get(&self, path: &str) -> Result<Reply, ClientError> {
        let request = self.request(Method::GET, path, HeaderMap::new(), Bytes::new());
        self.exchange(request, DEADLINE).await
    }

    /// Has something done that needs no more than its path.
    pub(crate) async fn post(&self, path: &str) -> Result<Reply, ClientError> {
        let request = self.request(Method::POST, path, HeaderMap::new(), Bytes::new());
        self.exchange(request, DEADLINE).await
    }

    /// Sends messages.
    pub(crate) async fn upload(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, ClientError> {
        let request = self.request(Method::POST, path, headers, body);
        self.exchange(request, UPLOAD_DEADLINE).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.join(path);
        *request.headers_mut() = headers;
        if let Some(token) = &self.token {
            request.headers_mut().insert(header::AUTHORIZATION, token.clone());
        }
        request
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Duration,
    ) -> Result<Reply, ClientError> {
        let answer = timeout(deadline, self.answer(request)).await;
        let (status, headers, body) = answer.unwrap_or_else(|_| Err(self.late(deadline)))?;
        self.answered.store(true, Ordering::Relaxed);
        if status.is_success() {
            return Ok(Reply::new(body));
        }
        Err(ClientError::Refused(Problem::read(status, &headers, &body)))
    }

    /// The whole answer; whatever stands in the way of it says with whom.
    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), ClientError> {
        let broken = |source| ClientError::Broken { url: self.url.clone(), source };
        let response = self.http.request(request).await.map_err(|error| {
            if error.is_connect() { self.unreachable(error) } else { broken(error.into()) }
        })?;
        let (head, body) = response.into_parts();
        let body = reply::read(body).await.map_err(broken)?;
        Ok((head.status, head.headers, body))
    }

    fn unreachable(&self, source: legacy::Error) -> ClientError {
        let was_there = self.answered.load(Ordering::Relaxed);
        ClientError::Unreachable { url: self.url.clone(), was_there, source }
    }

    fn late(&self, deadline: Duration) -> ClientError {
        ClientError::Late { url: self.url.clone(), deadline }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

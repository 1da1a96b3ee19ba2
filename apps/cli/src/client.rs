//! A client of the gateway's HTTP API, for the operator's commands.

mod connection;
mod download;
mod error;
mod problem;
mod reply;
mod retry;
mod tls;
mod token;
mod url;

use std::{
    error::Error,
    fmt,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bezoar::{Clock, MessageId, SystemClock};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde::Serialize;
use tokio::time::timeout;

pub(crate) use connection::Connection;
pub(crate) use download::Download;
pub(crate) use error::ClientError;
pub(crate) use problem::Problem;
pub(crate) use reply::ApiReply;
pub(crate) use retry::Retry;
use token::TokenSource;
pub(crate) use url::{Url, encode, path};

/// How long an ordinary request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long it may take to store messages, or to select among a million dead letters.
const LONG_DEADLINE: Duration = Duration::from_secs(60);
/// How long a request may take whose response contains a body.
const BODY_DEADLINE: Duration = Duration::from_secs(300);
/// How long work may take whose end is waited for.
const WAITING_DEADLINE: Duration = Duration::from_secs(3_600);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of a response: time and size.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    deadline: Duration,
    reply_bytes: usize,
}

const SHORT: Bounds = Bounds { deadline: DEADLINE, reply_bytes: reply::LIMIT_BYTES };
const LONG: Bounds = Bounds { deadline: LONG_DEADLINE, reply_bytes: reply::LIMIT_BYTES };
const WAITING: Bounds = Bounds { deadline: WAITING_DEADLINE, reply_bytes: reply::LIMIT_BYTES };
const WITH_BODY: Bounds =
    Bounds { deadline: BODY_DEADLINE, reply_bytes: reply::LIMIT_WITH_BODY_BYTES };

/// Talks to one gateway over keep-alive connections.
pub(crate) struct ApiClient {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: Url,
    token: Option<HeaderValue>,
    sources: (UrlSource, TokenSource),
    answered: AtomicBool,
}

/// Where the gateway's URL came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UrlSource {
    Flag,
    /// A variable of the environment.
    Environment(&'static str),
    /// The configuration file of the gateway.
    File(PathBuf),
    /// Nothing was given or found.
    Default,
}

impl fmt::Display for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("from --url"),
            Self::Environment(name) => write!(f, "from {name}"),
            Self::File(path) => write!(f, "from {}", path.display()),
            Self::Default => f.write_str("the default; no bezoar.toml in this folder"),
        }
    }
}

impl ApiClient {
    /// A client without connections yet.
    pub(crate) fn new(
        url: Url,
        token: Option<HeaderValue>,
        sources: (UrlSource, TokenSource),
    ) -> anyhow::Result<Self> {
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(tls::connector(&url)?);
        Ok(Self { http, url, token, sources, answered: AtomicBool::new(false) })
    }

    /// The gateway's URL.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Result<ApiReply, ClientError> {
        let request = self.request(Method::GET, path, HeaderMap::new(), Bytes::new());
        self.exchange(request, SHORT).await
    }

    /// Sends a POST request without a body.
    pub(crate) async fn post(&self, path: &str) -> Result<ApiReply, ClientError> {
        let request = self.request(Method::POST, path, HeaderMap::new(), Bytes::new());
        self.exchange(request, SHORT).await
    }

    /// The same, for something that may take long.
    pub(crate) async fn post_and_wait(&self, path: &str) -> Result<ApiReply, ClientError> {
        let request = self.request(Method::POST, path, HeaderMap::new(), Bytes::new());
        self.exchange(request, WAITING).await
    }

    /// Sends a POST request with a JSON body.
    pub(crate) async fn order(
        &self,
        path: &str,
        what: &impl Serialize,
    ) -> Result<ApiReply, ClientError> {
        self.exchange(self.request_of(path, what), LONG).await
    }

    /// The same, for a request that starts something: repeated with one idempotency key while the gateway is busy or the
    /// outcome is unknown, so that it starts only once.
    pub(crate) async fn start(
        &self,
        path: &str,
        what: &impl Serialize,
        patience: Duration,
    ) -> Result<ApiReply, ClientError> {
        let key = MessageId::generate(SystemClock.now(), &mut rand::rng());
        let key = HeaderValue::from_str(key.as_str()).expect("a UUID is a header value");
        let mut retry = Retry::new(patience);
        loop {
            let mut request = self.request_of(path, what);
            request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
            match self.exchange(request, LONG).await {
                Err(error) if error.is_transient() && retry.wait(error.retry_after()).await => {}
                result => return result,
            }
        }
    }

    /// The same, for a response that contains a message body and may be large.
    pub(crate) async fn reveal(
        &self,
        path: &str,
        what: &impl Serialize,
    ) -> Result<ApiReply, ClientError> {
        self.exchange(self.request_of(path, what), WITH_BODY).await
    }

    /// The same, for a response of unlimited size that is read in chunks.
    pub(crate) async fn download(
        &self,
        path: &str,
        what: &impl Serialize,
    ) -> Result<Download, ClientError> {
        let answer = timeout(LONG.deadline, async {
            let response = self.respond(self.request_of(path, what)).await?;
            match response.status().is_success() {
                true => Ok(Download::new(self.url.clone(), response.into_body())),
                false => Err(self.refused(response, LONG).await),
            }
        });
        answer.await.unwrap_or_else(|_| Err(self.late(LONG.deadline)))
    }

    /// Sends messages in a POST request.
    pub(crate) async fn upload(
        &self,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<ApiReply, ClientError> {
        self.exchange(self.request(Method::POST, path, headers, body), LONG).await
    }

    fn request_of(&self, path: &str, what: &impl Serialize) -> Request<Full<Bytes>> {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        let body = serde_json::to_vec(what).expect("a request has only text as keys");
        self.request(Method::POST, path, headers, body.into())
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
        bounds: Bounds,
    ) -> Result<ApiReply, ClientError> {
        let answer = timeout(bounds.deadline, async {
            let response = self.respond(request).await?;
            match response.status().is_success() {
                true => self.read(response, bounds).await.map(ApiReply::new),
                false => Err(self.refused(response, bounds).await),
            }
        });
        answer.await.unwrap_or_else(|_| Err(self.late(bounds.deadline)))
    }

    /// Sends the request and waits for the head of the response.
    async fn respond(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let response = self.http.request(request).await.map_err(|error| {
            if error.is_connect() { self.unreachable(error) } else { self.broken(error.into()) }
        })?;
        self.answered.store(true, Ordering::Relaxed);
        Ok(response)
    }

    async fn read(
        &self,
        response: Response<Incoming>,
        bounds: Bounds,
    ) -> Result<Bytes, ClientError> {
        let read = reply::read(response.into_body(), bounds.reply_bytes).await;
        read.map_err(|source| self.broken(source))
    }

    async fn refused(&self, response: Response<Incoming>, bounds: Bounds) -> ClientError {
        let (status, headers) = (response.status(), response.headers().clone());
        match self.read(response, bounds).await {
            Ok(body) => {
                let token = self.sources.1.clone();
                ClientError::Refused(Box::new(Problem::read(status, &headers, &body, token)))
            }
            Err(error) => error,
        }
    }

    fn broken(&self, source: Box<dyn Error + Send + Sync>) -> ClientError {
        ClientError::Broken { url: self.url.clone(), source }
    }

    fn unreachable(&self, source: legacy::Error) -> ClientError {
        let was_there = self.answered.load(Ordering::Relaxed);
        let found = self.sources.0.clone();
        ClientError::Unreachable { url: self.url.clone(), found, was_there, source }
    }

    fn late(&self, deadline: Duration) -> ClientError {
        ClientError::Late { url: self.url.clone(), deadline }
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").field("url", &self.url).finish_non_exhaustive()
    }
}

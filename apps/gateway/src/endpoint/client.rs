//! A client whose connections all routes share.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{self, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::{
    CallError, CallErrorKind, EndpointUrl, NetworkRule, connector::Connector,
    cuttable_connection::ConnectionGuard, reply::EndpointReply, request::REDELIVERED,
    tls_trust::TlsTrust,
};

/// The largest head of a reply, and what is read of a body at a time.
const BUFFER_LIMIT_BYTES: usize = 64 * 1024;

/// How connections are made and kept.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses may be dialled. One set for all who share the client: a connection that one route
    /// may open is one that another may use.
    pub network: NetworkRule,
    /// How long a connection may take, name and TLS included.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. Shorter than what common servers wait before they close one
    /// (5 s in Node.js and uvicorn), so that a request seldom meets a connection that is just being closed.
    pub idle_timeout: Duration,
    /// How many unused connections are kept for each destination.
    pub max_idle: usize,
    /// Whom to trust; what the system trusts, if none.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Default for ClientOptions {
    /// Public addresses, 5 s to connect, 256 unused connections for 4 s.
    fn default() -> Self {
        Self {
            network: NetworkRule::default(),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(4),
            max_idle: 256,
            tls: None,
        }
    }
}

/// Sends requests over connections that are kept and shared. It follows no redirect, knows no proxy and
/// keeps no cookie. Clones are the same.
///
/// A server may close a kept connection at the moment in which it is used again. So a request on one that ends
/// without an answer is sent once more, on a new connection, and says that it may have been seen before.
#[derive(Clone)]
pub struct EndpointClient {
    kept: legacy::Client<Connector, Full<Bytes>>,
    fresh: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoReply {
    pub(super) error: CallError,
    /// Whether it was a new connection that ended without an answer.
    pub(super) fresh_connection: bool,
}

impl EndpointClient {
    /// A client without connections yet.
    pub fn new(options: ClientOptions) -> Self {
        let trust = TlsTrust::new(options.tls);
        let connector = Connector::new(options.network, trust, options.connect_timeout);
        let http = |max_idle| {
            legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(options.idle_timeout)
                .pool_max_idle_per_host(max_idle)
                .http1_max_buf_size(BUFFER_LIMIT_BYTES)
                // A request of which not one byte was written goes to another connection.
                .retry_canceled_requests(true)
                .build(connector.clone())
        };
        Self { kept: http(options.max_idle), fresh: http(0), connector }
    }

    /// Whether a connection comes about, TLS included. Nothing is sent.
    ///
    /// # Errors
    ///
    /// What stood in the way.
    pub async fn reach(&self, url: &EndpointUrl) -> Result<(), CallError> {
        self.connector.clone().call(url.uri().clone()).await.map(drop)
    }

    /// The reply, or why there is none. Dropping the future closes the connection.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<EndpointReply, NoReply> {
        let mut again = request.clone();
        match exchange(&self.kept, request, deadline).await {
            Err(no_reply) if no_reply.may_be_of_an_old_connection() => {
                again.headers_mut().insert(REDELIVERED, HeaderValue::from_static("true"));
                exchange(&self.fresh, again, deadline).await
            }
            result => result,
        }
    }
}

async fn exchange(
    http: &legacy::Client<Connector, Full<Bytes>>,
    mut request: Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<EndpointReply, NoReply> {
    let guard = ConnectionGuard::new(capture_connection(&mut request));
    let answered = timeout_at(deadline, http.request(request)).await;
    let requests = guard.count_request();
    let error = match answered {
        Ok(Ok(response)) => {
            let reply = EndpointReply::read(response, deadline).await;
            if reply.leaves_connection_usable() {
                guard.release();
            }
            return Ok(reply);
        }
        Ok(Err(error)) => CallError::requesting(&error),
        Err(_) if requests.is_none() => CallError::plain(CallErrorKind::ConnectTimeout),
        Err(_) => CallError::plain(CallErrorKind::Timeout),
    };
    Err(NoReply { error, fresh_connection: requests == Some(1) })
}

impl NoReply {
    fn may_be_of_an_old_connection(&self) -> bool {
        self.error.kind == CallErrorKind::Reset && !self.fresh_connection
    }
}

impl fmt::Debug for EndpointClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointClient").finish_non_exhaustive()
    }
}

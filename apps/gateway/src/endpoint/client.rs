//! The client of all routes: HTTP with a shared connection pool, and connections for other protocols.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{self, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time::{Instant, timeout_at};
use tower::Service;

use super::{
    AckMode, CallError, CallErrorKind, EndpointUrl, NetworkRule,
    connector::{Connector, EndpointStream},
    cuttable_connection::ConnectionGuard,
    mllp::IdleLimits,
    reply::EndpointReply,
    request::REDELIVERED,
    tls_trust::{TlsOptions, TlsTrust},
};

/// The maximum size of a reply's head, and the read buffer for bodies.
const BUFFER_LIMIT_BYTES: usize = 64 * 1024;

/// How connections are opened and pooled.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses are allowed. One rule for all routes: they share connections.
    pub network: NetworkRule,
    /// How long a connection may take, including DNS and TLS.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept. Shorter than the keep-alive timeout of common servers (5 s in Node.js and
    /// uvicorn), so that a request rarely hits a connection that is just being closed.
    pub idle_timeout: Duration,
    /// The same for MLLP, whose receivers keep connections for long; a connection that they close is noticed at once.
    pub mllp_idle_timeout: Duration,
    /// The maximum number of idle connections per destination.
    pub max_idle: usize,
    /// Whom to trust, and the client certificate.
    pub tls: TlsOptions,
}

impl Default for ClientOptions {
    /// Public addresses, 5 s to connect, 256 idle connections for 4 s, or 60 s with MLLP.
    fn default() -> Self {
        Self {
            network: NetworkRule::default(),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(4),
            mllp_idle_timeout: Duration::from_secs(60),
            max_idle: 256,
            tls: TlsOptions::default(),
        }
    }
}

/// Sends requests over pooled connections. It follows no redirects, uses no proxy and stores no cookies. Clones share
/// the pool.
///
/// A server may close an idle connection at the moment it is reused. So a request on a reused connection that gets no
/// reply is sent once more, on a new connection, with a header that it may have been seen before.
#[derive(Clone)]
pub struct EndpointClient {
    kept: legacy::Client<Connector, Full<Bytes>>,
    fresh: legacy::Client<Connector, Full<Bytes>>,
    connector: Connector,
    options: ClientOptions,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoReply {
    pub(super) error: CallError,
    /// Whether the connection that ended without a reply was a new one.
    pub(super) fresh_connection: bool,
}

impl EndpointClient {
    /// A client without connections yet.
    pub fn new(options: ClientOptions) -> Self {
        let trust = TlsTrust::new(options.tls.clone());
        let connector = Connector::new(options.network.clone(), trust, options.connect_timeout);
        let http = |max_idle| {
            legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(options.idle_timeout)
                .pool_max_idle_per_host(max_idle)
                .http1_max_buf_size(BUFFER_LIMIT_BYTES)
                // A request of which no byte was written is sent on another connection.
                .retry_canceled_requests(true)
                .build(connector.clone())
        };
        Self { kept: http(options.max_idle), fresh: http(0), connector, options }
    }

    /// This client; or one with its own connections if an endpoint has its own TLS options, which connections of others
    /// must not be mixed with.
    #[must_use]
    pub fn with_tls(&self, tls: Option<TlsOptions>) -> Self {
        match tls {
            Some(tls) => Self::new(ClientOptions { tls, ..self.options.clone() }),
            None => self.clone(),
        }
    }

    /// Tests whether a connection can be made, including TLS. Sends nothing.
    ///
    /// # Errors
    ///
    /// Why no connection could be made.
    pub async fn reach(&self, url: &EndpointUrl) -> Result<(), CallError> {
        self.connect(url).await.map(drop)
    }

    /// A new connection, for a protocol other than HTTP.
    pub(super) async fn connect(&self, url: &EndpointUrl) -> Result<EndpointStream, CallError> {
        self.connector.clone().call(url.dialled().clone()).await
    }

    pub(super) fn mllp_idle(&self) -> IdleLimits {
        IdleLimits { most: self.options.max_idle, timeout: self.options.mllp_idle_timeout }
    }

    /// Returns the reply, or why there is none; keeps the body of a success if `ack` needs it. Dropping the future closes the connection.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        ack: AckMode,
        deadline: Instant,
    ) -> Result<EndpointReply, NoReply> {
        let mut again = request.clone();
        match exchange(&self.kept, request, ack, deadline).await {
            Err(no_reply) if no_reply.may_be_a_stale_connection() => {
                again.headers_mut().insert(REDELIVERED, HeaderValue::from_static("true"));
                exchange(&self.fresh, again, ack, deadline).await
            }
            result => result,
        }
    }
}

async fn exchange(
    http: &legacy::Client<Connector, Full<Bytes>>,
    mut request: Request<Full<Bytes>>,
    ack: AckMode,
    deadline: Instant,
) -> Result<EndpointReply, NoReply> {
    let guard = ConnectionGuard::new(capture_connection(&mut request));
    let answered = timeout_at(deadline, http.request(request)).await;
    let requests = guard.count_request();
    let error = match answered {
        Ok(Ok(response)) => {
            let reply = EndpointReply::read(response, ack, deadline).await;
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
    fn may_be_a_stale_connection(&self) -> bool {
        self.error.kind == CallErrorKind::Reset && !self.fresh_connection
    }
}

impl fmt::Debug for EndpointClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointClient").finish_non_exhaustive()
    }
}

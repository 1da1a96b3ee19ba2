//! The client of all routes: how they connect, and how long they keep connections.

use std::{fmt, time::Duration};

use tower::Service;

use super::{
    CallError, EndpointUrl, NetworkRule,
    connector::{Connector, EndpointStream},
    http_connections::HttpConnections,
    tls_trust::{TlsOptions, TlsTrust},
};

/// How connections are opened and kept.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses are allowed, on all routes.
    pub network: NetworkRule,
    /// How long a connection may take, including DNS and TLS.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept. Shorter than the keep-alive timeout of common servers (5 s in Node.js and
    /// uvicorn), so that a request rarely hits a connection that is just being closed.
    pub idle_timeout: Duration,
    /// The same for MLLP, whose receivers keep connections for long; a connection that they close is noticed at once.
    pub mllp_idle_timeout: Duration,
    /// The maximum number of idle connections per endpoint.
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

/// How many idle connections are kept, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    pub(super) most: usize,
    pub(super) timeout: Duration,
}

/// Opens connections to endpoints. It follows no redirects, uses no proxy and stores no cookies. Clones share their
/// configuration; each endpoint has connections of its own.
#[derive(Clone)]
pub struct EndpointClient {
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
        Self { connector, options }
    }

    /// This client; or one for an endpoint that has its own TLS options.
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

    /// The connections of an HTTP endpoint; none yet.
    pub(super) fn http(&self, url: &EndpointUrl) -> HttpConnections {
        let limits = self.idle(self.options.idle_timeout);
        HttpConnections::new(self.connector.clone(), url.dialled().clone(), limits)
    }

    pub(super) fn mllp_idle(&self) -> IdleLimits {
        self.idle(self.options.mllp_idle_timeout)
    }

    fn idle(&self, timeout: Duration) -> IdleLimits {
        IdleLimits { most: self.options.max_idle, timeout }
    }
}

impl fmt::Debug for EndpointClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointClient").finish_non_exhaustive()
    }
}

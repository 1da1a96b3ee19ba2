//! Options of delivery to an endpoint.

use std::{fmt, sync::Arc, time::Duration};

use bezoar::{Code, Context};

use super::{EndpointUrl, ExtraHeaders, RateLimit, RouteBreaker, SigningSecret};

/// Returns the `traceparent` of a delivery.
pub type Traceparent = Arc<dyn Fn(&Context) -> Option<String> + Send + Sync>;
/// Called when a route must pause. It must not block.
pub type OnPause = Arc<dyn Fn(PauseRequest) + Send + Sync>;

/// A request to pause a route until an operator has looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRequest {
    /// `http.410` if the endpoint is gone for good, `target.denied` if its address is not allowed.
    pub code: Code,
}

/// How messages are delivered to an endpoint.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Its URL.
    pub url: EndpointUrl,
    /// How long a delivery may take (at most a day), from the connection to the last byte of the reply. Waiting for the rate
    /// limit takes at most as long again; see [`Endpoint::longest`](super::Endpoint::longest).
    pub timeout: Duration,
    /// Headers that are added to each request.
    pub headers: ExtraHeaders,
    /// The secrets that sign requests; several while one replaces another.
    pub secrets: Vec<SigningSecret>,
    /// The breaker of the route.
    pub breaker: RouteBreaker,
    /// The longest `Retry-After` that is honoured; longer ones are cut to it.
    pub max_retry_after: Duration,
    /// The rate limit; unlimited if `None`.
    pub rate: Option<RateLimit>,
    /// Returns the `traceparent` of a delivery.
    pub traceparent: Option<Traceparent>,
    /// Called when the route must pause.
    pub on_pause: Option<OnPause>,
}

impl EndpointOptions {
    /// 30 s per delivery, `Retry-After` up to an hour, its own breaker, and nothing else.
    pub fn new(url: EndpointUrl) -> Self {
        Self {
            url,
            timeout: Duration::from_secs(30),
            headers: ExtraHeaders::default(),
            secrets: Vec::new(),
            breaker: RouteBreaker::default(),
            max_retry_after: Duration::from_secs(60 * 60),
            rate: None,
            traceparent: None,
            on_pause: None,
        }
    }
}

impl fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("url", &self.url)
            .field("timeout", &self.timeout)
            .field("headers", &self.headers)
            .field("secrets", &self.secrets)
            .field("breaker", &self.breaker)
            .field("max_retry_after", &self.max_retry_after)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

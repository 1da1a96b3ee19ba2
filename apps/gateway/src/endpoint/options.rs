//! Options of delivery to an endpoint.

use std::{fmt, sync::Arc, time::Duration};

use bezoar::{Code, Context};

use super::{CallOptions, EndpointUrl, RateLimit, RouteBreaker};

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
    /// Where it is, and what is sent along. Waiting for the rate limit may take as long again as its timeout; see
    /// [`Endpoint::longest`](super::Endpoint::longest).
    pub call: CallOptions,
    /// The breaker of the route.
    pub breaker: RouteBreaker,
    /// The longest `Retry-After` that is honoured; longer ones are cut to it.
    pub max_retry_after: Duration,
    /// The rate limit; unlimited if `None`.
    pub rate: Option<RateLimit>,
    /// Called when the route must pause.
    pub on_pause: Option<OnPause>,
}

impl EndpointOptions {
    /// 30 s per delivery, `Retry-After` up to an hour, its own breaker, and nothing else.
    pub fn new(url: EndpointUrl) -> Self {
        Self {
            call: CallOptions::new(url),
            breaker: RouteBreaker::default(),
            max_retry_after: Duration::from_secs(60 * 60),
            rate: None,
            on_pause: None,
        }
    }
}

impl fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("call", &self.call)
            .field("breaker", &self.breaker)
            .field("max_retry_after", &self.max_retry_after)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}

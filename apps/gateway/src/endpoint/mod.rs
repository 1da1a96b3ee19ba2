//! Delivery of messages to HTTP endpoints.
//!
//! ```no_run
//! use std::sync::Arc;
//! use bezoar::{SystemClock, Worker};
//! use bezoar_gateway::endpoint::{EndpointClient, ClientOptions, Endpoint, EndpointOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = EndpointClient::new(ClientOptions::default()); // one for all routes
//! let mut options = EndpointOptions::new("https://example.org/results".parse()?);
//! options.headers.insert("authorization", "Bearer token")?;
//! options.secrets = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?];
//! let endpoint = Endpoint::new(options, client, Arc::new(SystemClock));
//! let worker = Worker::new("results", endpoint.clone())?;
//! # Ok(()) }
//! ```
//!
//! **The request** is a POST with the body as it is. `content-type` is the message's, else the route's, else
//! `application/octet-stream`. `bezoar-id`, `bezoar-type`, `bezoar-correlation-id`, `bezoar-queue`,
//! `bezoar-attempt` (from 1), `bezoar-redelivered` (`true` or `false`), `traceparent`, and where there is a
//! secret `webhook-id`, `webhook-timestamp` and `webhook-signature` as of Standard Webhooks. A message's own
//! headers come as `bezoar-header-NAME`, the first 64 of them and 8 KiB; `bezoar-headers-left-out` says how
//! many there was no room for. Values of `bezoar-` headers are percent-encoded UTF-8 wherever they are not
//! plain visible ASCII (and `%` is `%25`), so decoding one always gives the text back; the signature is over
//! `webhook-id` as it was sent.
//!
//! **The reply**, read to 64 KiB and all of it within the timeout:
//!
//! | reply | message | breaker |
//! | --- | --- | --- |
//! | 2xx | done | closes |
//! | no connection | uses up no retry | evidence |
//! | 429, 503 with `Retry-After` | uses up no retry, waits as asked | evidence |
//! | 502, 503, 504, a connection that ends without an answer | uses up no retry, may be suspected | evidence |
//! | 500 and other 5xx, no whole reply in time, a broken reply | retried | evidence |
//! | 404 | retried; uses up none once it is the route's fault | evidence |
//! | 401, 403, 405, 3xx (no redirect is followed) | not retried; waits once it is the route's fault | evidence |
//! | 408, 425 | retried | closes |
//! | 410 | not retried if anything succeeded before; else the route is to pause | |
//! | an address that may not be dialled | handed back, the route is to pause | |
//! | other 4xx, 101 | not retried | closes |
//!
//! Half a reply is never the last word: where the status says done, give up or gone and the rest does not
//! come, the message is retried. Who is to blame is decided by [`Blame`](bezoar::blame::Blame): a failure that
//! uses up no retry is an [`UncountedError`](bezoar::UncountedError). While the breaker is open, messages are
//! postponed ([`Postpone`](bezoar::Postpone)).
//!
//! A request on a kept connection that ends without an answer is sent once more on a new one, with
//! `bezoar-redelivered: true`.

mod breaker;
mod call_error;
mod cidr;
mod classify;
mod client;
mod connector;
mod cuttable_connection;
mod dial;
mod dns;
mod extra_headers;
mod header_encoding;
mod network;
mod options;
mod problem;
mod rate_limit;
mod reply;
mod request;
mod retry_after;
mod service;
mod signature;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod tls_trust;
mod url;

pub use breaker::{Origins, RouteBreaker};
pub use call_error::{CallError, CallErrorKind};
pub use cidr::Cidr;
pub use client::{ClientOptions, EndpointClient};
pub use extra_headers::ExtraHeaders;
pub use network::{NetworkRule, Unlisted};
pub use options::{EndpointOptions, OnPause, PauseRequest, Traceparent};
pub use rate_limit::RateLimit;
pub use service::Endpoint;
pub use signature::SigningSecret;
pub use url::EndpointUrl;

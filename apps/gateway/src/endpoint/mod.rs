//! Delivers messages to endpoints: by HTTP, with or without HL7 v2 acknowledgements, and by MLLP.
//!
//! ```no_run
//! use std::sync::Arc;
//! use bezoar::{SystemClock, Worker};
//! use bezoar_gateway::endpoint::{EndpointClient, ClientOptions, Endpoint, EndpointOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = EndpointClient::new(ClientOptions::default()); // one for all routes
//! let mut options = EndpointOptions::new("https://example.org/results".parse()?);
//! options.call.headers.insert("authorization", "Bearer token")?;
//! options.call.secrets = vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?];
//! let endpoint = Endpoint::new(options, client, Arc::new(SystemClock));
//! let worker = Worker::new("results", endpoint.clone())?;
//! # Ok(()) }
//! ```
//!
//! **The request** is a POST with the unchanged body. `content-type` is the message's, otherwise the route's, otherwise
//! `application/octet-stream` (with HL7 acknowledgements `x-application/hl7-v2+er7`). The other headers are `bezoar-id`, `bezoar-type`, `bezoar-correlation-id`,
//! `bezoar-queue`, `bezoar-attempt` (from 1), `bezoar-redelivered` (`true` or `false`), `traceparent`, and with a secret
//! `webhook-id`, `webhook-timestamp` and `webhook-signature` as specified by Standard Webhooks. A message's own headers
//! are sent as `bezoar-header-NAME`, up to 64 and 8 KiB; `bezoar-headers-left-out` counts the rest. Values of `bezoar-`
//! headers are percent-encoded UTF-8 unless they are visible ASCII (and `%` is `%25`), so that decoding always restores
//! the text; the signature covers `webhook-id` as sent.
//!
//! **The reply** is read up to 64 KiB, completely within the timeout:
//!
//! | reply | message | breaker |
//! | --- | --- | --- |
//! | 2xx | done | closes |
//! | no connection | uses up no retry | failure |
//! | 429, 503 with `Retry-After` | uses up no retry, waits as requested | failure |
//! | 502, 503, 504, connection closed without a reply | uses up no retry, may become suspected | failure |
//! | 500 and other 5xx, timeout, incomplete reply | retried | failure |
//! | 404 | retried; uses up no retry once the route is at fault | failure |
//! | 401, 403, 405, 3xx (redirects are not followed) | not retried; waits once the route is at fault | failure |
//! | 408, 425 | retried | closes |
//! | 410 | not retried if anything succeeded before; otherwise the route pauses | |
//! | an address that is not allowed | released, and the route pauses | |
//! | other 4xx, 101 | not retried | closes |
//!
//! **HL7 acknowledgements.** With [`AckMode::Hl7`], and always by MLLP, a success is an HL7 v2 acknowledgement of this message:
//! its MSA-2 is the message's MSH-10. With HTTP it is in a 2xx reply; all other statuses mean what they always mean.
//!
//! | reply | message | breaker |
//! | --- | --- | --- |
//! | `AA`, `CA` | done | closes |
//! | `AE`, `CE` | retried | failure |
//! | `AR`, `CR` | not retried | closes |
//! | no acknowledgement, an unreadable one, or one of another message | retried; uses up no retry once the route is at fault | failure, with pauses up to 20 times as long |
//! | MLLP: no connection | uses up no retry | failure |
//! | MLLP: connection closed without a reply | uses up no retry, may become suspected | failure |
//! | MLLP: timeout, connection closed within the reply, a reply above 64 KiB | retried | failure |
//! | a message without MSH or MSH-10, or by MLLP with framing bytes | not sent, not retried | |
//!
//! Why `AE` is like a 500 and `AR` like a 422 is in `docs/adr/0010-hl7-acknowledgements.md`.
//!
//! An incomplete reply is never final: if the status means done, give up or gone and the rest is missing, the message is
//! retried. [`Blame`](bezoar::blame::Blame) decides which failures count: one that uses up no retry is an
//! [`UncountedError`](bezoar::UncountedError). While the breaker is open, messages are postponed
//! ([`Postpone`](bezoar::Postpone)).
//!
//! A request on a reused connection that gets no reply is sent once more on a new connection, by HTTP with
//! `bezoar-redelivered: true`.

mod breaker;
mod call;
mod call_error;
mod call_report;
mod cidr;
mod classify;
mod client;
mod connector;
mod cuttable_connection;
mod dial;
mod dns;
mod extra_headers;
mod header_encoding;
mod hl7;
mod http_connections;
mod mllp;
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
pub use call::{AckMode, CallOptions, EndpointCaller};
pub use call_error::{CallError, CallErrorKind};
pub use call_report::{CallReport, Verdict};
pub use cidr::Cidr;
pub use client::{ClientOptions, EndpointClient};
pub use extra_headers::ExtraHeaders;
pub use hl7::AckCode;
pub use network::{NetworkRule, Unlisted};
pub use options::{EndpointOptions, OnPause, PauseRequest, Traceparent};
pub use rate_limit::RateLimit;
pub use service::Endpoint;
pub use signature::SigningSecret;
pub use tls_trust::TlsOptions;
pub use url::EndpointUrl;

//! The gateway: messages from queues, delivered to HTTP endpoints.
//!
//! | module | contents |
//! | --- | --- |
//! | `config` | parses and validates the configuration, once |
//! | `gateway` | starts, reloads and stops everything together |
//! | `store` | the store, and which of several gateways on it leads |
//! | `other_gateways` | follows what operators do at other gateways on the same store |
//! | `background` | background tasks: metrics, replays and discards, retention |
//! | `route` | a running route: a worker, an endpoint, and the gate between them |
//! | `poison_retry` | poison queues whose messages are delivered again, on a schedule and on demand |
//! | `endpoint` | HTTP delivery: request, reply, breaker, allowed addresses |
//! | `api`, `server`, `app` | the HTTP API, the server, and the state they share |
//! | `api_types` | the requests and answers of the API, which clients share |
//! | `broker`, `broker_topology`, `dead_letter_intake` | queues on brokers: naming, checks and provisioning, intake of dead letters |
//! | `access`, `token` | authentication and authorization |
//! | `audit_anchor`, `export_signature` | what shows that the audit log or an export was changed |
//! | `telemetry` | logs, metrics, traces |

mod access;
mod api;
pub mod api_types;
mod app;
mod atomic_file;
mod audit_anchor;
mod background;
mod broker;
pub mod broker_topology;
pub mod config;
mod dead_letter_intake;
mod deliveries;
pub mod endpoint;
mod export_signature;
mod gateway;
mod other_gateways;
mod poison_retry;
mod route;
mod server;
pub mod store;
pub mod telemetry;
mod throughput;
pub mod token;

pub use app::ErrorTexts;
pub use deliveries::Deliveries;
pub use gateway::{Gateway, GeneratedToken};
pub use server::raise_open_file_limit;

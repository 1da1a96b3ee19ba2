//! The gateway: messages from queues, delivered to HTTP endpoints.
//!
//! | module | what |
//! | --- | --- |
//! | `config` | raw text to checked values, once |
//! | `gateway` | opened, reloaded and stopped as one |
//! | `background` | what goes on beside the routes: measuring, replays and discards, retention |
//! | `route` | a worker on a queue, an endpoint, and what holds messages back between them |
//! | `endpoint` | delivery by HTTP: request, reply, breaker, which addresses may be dialled |
//! | `api`, `server`, `app` | the HTTP API, how it is served, and what it works on |
//! | `access`, `token` | who may do what |
//! | `telemetry` | logs, metrics, traces |

mod access;
mod api;
mod app;
mod background;
mod broker;
pub mod broker_topology;
pub mod config;
mod dead_letter_intake;
pub mod endpoint;
mod gateway;
mod route;
mod server;
pub mod telemetry;
mod throughput;
pub mod token;

pub use app::ErrorTexts;
pub use gateway::{Gateway, GeneratedToken};

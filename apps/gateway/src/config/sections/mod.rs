//! The sections of the file: their types and how they are read.

mod dead_letters;
mod endpoint_tls;
mod log;
mod network;
mod poison_retry;
mod queue;
pub(super) mod retry;
mod route;
mod server;
mod store;
mod telemetry;
mod token;
mod transport;

pub use dead_letters::DeadLettersConfig;
pub use endpoint_tls::EndpointTls;
pub use log::{LogConfig, LogFilter, LogFormat, LogLevel};
pub use network::{NetworkConfig, PrivateAddresses};
pub use poison_retry::PoisonRetryConfig;
pub use queue::{QueueConfig, Watch};
pub use route::{AckFormat, DeadLetterMode, RouteConfig};
pub use server::ServerConfig;
pub use store::{PostgresStoreConfig, SqliteConfig, StoreConfig, StorePlace};
pub use telemetry::{MetricsAccess, TelemetryConfig};
pub use token::{Role, TokenConfig};
pub use transport::TransportConfig;
pub(super) use transport::mark_kinds;

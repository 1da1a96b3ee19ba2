//! Configuration: text is parsed and validated once, here; everywhere else values are already valid.
//!
//! ```
//! use bezoar_gateway::config::{self, Sources};
//!
//! let text = r#"
//! [[route]]
//! name = "results"
//! from = "results"
//! to = "http://localhost:3000/results"
//! timeout = "10s"
//! "#;
//! let sources = Sources {
//!     file: Some(("bezoar.toml".into(), text.to_owned())),
//!     environment: vec![("BEZOAR_SERVER__DRAIN".to_owned(), "1m".to_owned())],
//!     flags: vec![],
//! };
//! let loaded = config::load(&sources, &config::read_secret)?;
//! assert_eq!(loaded.config.routes[0].timeout.as_secs(), 10);
//! assert_eq!(loaded.origin("route[0].timeout").unwrap().to_string(), "bezoar.toml:6");
//! assert_eq!(loaded.origin("server.drain").unwrap().to_string(), "env BEZOAR_SERVER__DRAIN");
//! # Ok::<(), config::ConfigProblems>(())
//! ```
//!
//! - Precedence: flags, environment, file, defaults. [`show`] tells where each value came from.
//! - [`load`] reports all problems at once, each with its position and a remedy.
//! - [`contradictions`] finds values that contradict each other; [`load`] reports them as problems or warnings.
//! - [`Config::differences`] lists what a reload changes.
//! - [`keys`] is the single table of keys; [`schema`] and everything else are derived from it.
//!
//! How text becomes values: `toml_file` (TOML, with lines) and `overrides` (environment and flags) make a `tree`;
//! `known_keys` checks it against `keys`; `reader` turns it into `sections`. Until then values may be secrets,
//! so their types have no `Debug`, and errors quote only values of keys that hold no secrets.

mod contradictions;
mod excerpt;
pub mod human;
mod invalid_value;
pub(crate) mod keys;
mod kind;
mod known_keys;
mod known_transports;
mod load;
mod model;
pub(crate) mod names;
mod origin;
mod overrides;
mod path;
mod problem;
pub(crate) mod reader;
mod reload;
mod schema;
mod secret;
pub(crate) mod secret_url;
mod sections;
mod show;
mod suggest;
#[cfg(test)]
mod tests;
mod toml_file;
pub(crate) mod tree;
pub(crate) mod values;

pub use contradictions::contradictions;
pub use invalid_value::InvalidValue;
pub use keys::{Applies, Key, keys};
pub use kind::Kind;
pub use load::{Loaded, Sources, load, load_to_find_gateway};
pub use model::Config;
pub use names::{BrokerName, Name};
pub use origin::Origin;
pub use problem::{ConfigProblem, ConfigProblems};
pub use reader::Setting;
pub use reload::Reload;
pub use schema::schema;
pub use secret::{Resolve, Secret, SecretSource, read_secret};
pub use sections::{
    AckFormat, DeadLetterMode, DeadLettersConfig, EndpointTls, LogConfig, LogFilter, LogFormat,
    LogLevel, MetricsAccess, NetworkConfig, PoisonRetryConfig, PostgresStoreConfig,
    PrivateAddresses, QueueConfig, Role, RouteConfig, ServerConfig, SqliteConfig, StoreConfig,
    StorePlace, TelemetryConfig, TokenConfig, TransportConfig, Watch,
};
pub use show::{show, show_text};

pub use crate::broker::{
    AccountConfig, AzureConfig, CredentialKind, ErrorTextsChoice, ForeignTextChoice,
    PostgresConfig, QueueKind, RabbitMqConfig, ReturnQueueMode, TransportSettings,
};

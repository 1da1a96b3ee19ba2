//! The keys of `[transports.NAME]` and `[store]` for PostgreSQL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use bezoar::postgres::{LONGEST_DELAY, Options};

use crate::{
    broker::{BrokerTransport, KindSettings, TransportKind, TransportSettings, server_url},
    config::{
        Config, Key, Kind, Name, Secret,
        reader::{Section, SectionReader},
        secret_url::SecretUrl,
    },
};

/// A PostgreSQL database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    /// Its URL, with user and password.
    pub url: Secret,
    /// The schema that the tables are in.
    pub schema: Name,
    /// Whether the schema is created and upgraded.
    pub migrate: bool,
    /// Whether a pooler is in between that gives each transaction another connection.
    pub transaction_pooling: bool,
    /// The maximum number of connections.
    pub max_connections: u32,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How often to poll for messages of other processes.
    pub poll: Duration,
    /// CA certificates to trust.
    pub tls_ca: Option<PathBuf>,
}

/// `postgres://` and `postgresql://`.
pub(in crate::broker) const KIND: TransportKind = TransportKind {
    name: "PostgreSQL",
    schemes: SCHEMES,
    example: EXAMPLE,
    keys: KEYS,
    read: |reader, section| PostgresConfig::read(reader, section).map(TransportSettings::Postgres),
};

pub(crate) const SCHEMES: &[&str] = &["postgres", "postgresql"];
const EXAMPLE: &str = "postgres://user@localhost:5432/lab";
const SHORTEST: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The keys of a table in which a database is configured: one of its own, and those that all have.
macro_rules! database_keys {
    ($table:literal, $own:expr) => { &[
        $own,
        Key::new(concat!($table, ".user"), Kind::Name, "User name, if the URL has none.").restart(),
        Key::new(concat!($table, ".password"), Kind::Secret, "Password, if the URL has none.").restart(),
        Key::new(concat!($table, ".schema"), Kind::Name, "Schema that the tables are in.").or("bezoar").restart(),
        Key::new(concat!($table, ".migrate"), Kind::Boolean, "Whether the schema is created and upgraded; off for a user who may only work with its tables.").or("true").restart(),
        Key::new(concat!($table, ".transaction_pooling"), Kind::Boolean, "Set it if a pooler such as PgBouncer gives each transaction another connection. Messages of other processes are then found by polling.").or("false").restart(),
        Key::new(concat!($table, ".max_connections"), Kind::Integer(1, 1000), "Maximum number of connections; one more listens for notifications.").or("10").restart(),
        Key::new(concat!($table, ".connect_timeout"), Kind::Duration(SECOND, HOUR), "How long to wait for a connection.").or("10s").restart(),
        Key::new(concat!($table, ".statement_timeout"), Kind::Duration(SECOND, HOUR), "How long a statement may take before the server gives it up.").or("30s").restart(),
        Key::new(concat!($table, ".poll"), Kind::Duration(SHORTEST, HOUR), "How often to poll for messages of other processes if no notification arrives.").or("1s").restart(),
        Key::new(concat!($table, ".tls_ca"), Kind::File, "CA certificates to trust in place of the system's, in PEM.").restart(),
    ] };
}

const KEYS: &[Key] = database_keys!("transports.*", URL);
const URL: Key = Key::new("transports.*.url", Kind::BrokerUrl(EXAMPLE), "URL of the database: postgres://USER@HOST:PORT/DATABASE. Certificate and host name are verified unless it is on this machine or has another sslmode.").required().restart();

/// The keys of `[store]` for PostgreSQL.
pub(crate) const STORE_KEYS: &[Key] = database_keys!("store", FOLDER);
const FOLDER: Key = Key::new("store.folder", Kind::File, "Folder for the generated token and the noted head of the audit log; beside the file for SQLite.").or("bezoar-data").restart();

impl PostgresConfig {
    pub(crate) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        let (user, password) = server_url::credentials(reader, section);
        let url = server_url::read(reader, section, "url", SCHEMES);
        let url = url.map(|url| {
            url.or(user.as_ref().map(Name::as_str), password.as_ref().map(Secret::reveal)).written()
        });
        Some(Self {
            schema: reader.or_default(section, "schema"),
            migrate: reader.or_default(section, "migrate"),
            transaction_pooling: reader.or_default(section, "transaction_pooling"),
            max_connections: reader.or_default(section, "max_connections"),
            connect_timeout: reader.or_default(section, "connect_timeout"),
            statement_timeout: reader.or_default(section, "statement_timeout"),
            poll: reader.or_default(section, "poll"),
            tls_ca: reader.optional(section, "tls_ca"),
            url: url?,
        })
    }

    /// Its URL without the password.
    pub(crate) fn shown_url(&self) -> String {
        SecretUrl::parse(self.url.reveal(), SCHEMES)
            .map_or_else(|_| "***".to_owned(), |url| url.shown())
    }

    /// A name for files about this database.
    pub(crate) fn file_name(&self) -> String {
        let url = self.shown_url();
        let place = url.split_once("://").map_or("", |(_, rest)| rest);
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        format!("postgres-{place}-{}", self.schema.as_str()).chars().map(plain).collect()
    }

    /// The options of the database, for bodies up to this size. `table` is where they are written.
    pub(crate) fn options(&self, table: &str, max_message_bytes: usize) -> Result<Options> {
        let options =
            Options::from_url(self.url.reveal()).with_context(|| format!("{table}.url"))?;
        let mut options = Options {
            schema: self.schema.as_str().to_owned(),
            migrate: self.migrate,
            transaction_pooling: self.transaction_pooling,
            max_connections: self.max_connections,
            connect_timeout: self.connect_timeout,
            statement_timeout: self.statement_timeout,
            poll: self.poll,
            max_message_bytes,
            ..options
        };
        if let Some(ca) = &self.tls_ca {
            options.server = options.server.with_ca(ca);
        }
        Ok(options)
    }
}

impl KindSettings for PostgresConfig {
    fn open(&self, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
        super::open(self, name, all)
    }

    /// A queue is a row.
    fn provisions(&self) -> bool {
        true
    }

    fn longest_delay(&self) -> Duration {
        LONGEST_DELAY
    }

    fn rejects(&self) -> bool {
        false
    }
}

//! Options of a database: its server, its schema, its limits and how it waits.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use bezoar_core::Invalid;
use sqlx::{
    ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};

/// Options of a database: its server, its schema, its limits and how it waits.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server, the database on it and the user.
    pub server: Server,
    /// The schema that the tables are in. Any name; it is quoted where necessary.
    pub schema: String,
    /// Whether a missing schema is created and an older one upgraded. Off for a user who may only work with the
    /// tables: then their owner runs [`schema_script`](crate::schema_script).
    pub migrate: bool,
    /// Whether the connections lead through a pooler that gives each transaction another connection, such as PgBouncer
    /// with `pool_mode = transaction`. Then nothing is prepared and nobody is notified: messages of other processes are
    /// found by polling.
    pub transaction_pooling: bool,
    /// The maximum number of connections. One more listens for notifications.
    pub max_connections: u32,
    /// How long to wait for a connection, whether the server is unreachable or all connections are in use.
    pub connect_timeout: Duration,
    /// After how long the server gives up on a statement.
    pub statement_timeout: Duration,
    /// How often to poll for messages of other processes if no notification arrives. Not 0.
    pub poll: Duration,
    /// Largest body that is accepted, in bytes.
    pub max_message_bytes: usize,
    /// How many bytes the bodies of all dead letters may have before the catalogue takes in no more from brokers and
    /// imports, and says that it is full. Messages of the queues here become dead letters all the same. `None` for no
    /// limit.
    pub max_dead_letter_bytes: Option<u64>,
}

/// A server, the database on it and the user. `Debug` shows no password.
#[derive(Clone)]
pub struct Server(pub(crate) PgConnectOptions);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (self.0.get_host(), self.0.get_port());
        write!(f, "{host}:{port}/{}", self.0.get_database().unwrap_or_default())
    }
}

impl Server {
    /// Sets the password.
    pub fn with_password(self, password: &str) -> Self {
        Self(self.0.password(password))
    }

    /// Sets the user.
    pub fn with_user(self, user: &str) -> Self {
        Self(self.0.username(user))
    }

    /// Trusts the CA certificates in this file, in PEM, instead of the system's.
    pub fn with_ca(self, file: impl Into<PathBuf>) -> Self {
        Self(self.0.ssl_root_cert(file.into()))
    }
}

impl Options {
    /// The largest body that can be configured: 256 MiB. PostgreSQL's limit is 1 GiB for all parameters of a statement.
    const MAX_MESSAGE_LIMIT_BYTES: usize = 256 * 1024 * 1024;

    /// Parses `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the defaults: schema `bezoar`, 10 connections, 10 s to
    /// connect, 30 s for a statement, one poll a second, bodies up to 16 MiB.
    ///
    /// Parameters such as `sslmode` and `sslrootcert` can follow after a question mark. Without `sslmode`, the
    /// server's certificate and name are verified (`verify-full`), except on this machine.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it has another scheme or cannot be parsed. The URL is not repeated, because it may contain a
    /// password.
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let problem = "is not postgres://USER@HOST:PORT/DATABASE";
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Invalid::new("url", problem));
        }
        let server = PgConnectOptions::from_str(url).map_err(|_| Invalid::new("url", problem))?;
        // The text of a statement is ours, but how long it took is not worth a line per call.
        let server = server.application_name("bezoar").disable_statement_logging();
        let chosen = url.split_once('?').is_some_and(|(_, query)| {
            query.split('&').any(|it| it.starts_with("sslmode=") || it.starts_with("ssl-mode="))
        });
        let server = match chosen || is_local(&server) {
            true => server,
            false => server.ssl_mode(PgSslMode::VerifyFull),
        };
        Ok(Self {
            server: Server(server),
            schema: "bezoar".to_owned(),
            migrate: true,
            transaction_pooling: false,
            max_connections: 10,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            max_message_bytes: 16 * 1024 * 1024,
            max_dead_letter_bytes: None,
        })
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let zero = |field, time: Duration| (time.is_zero(), field, "is 0");
        let refused = [
            (
                self.max_message_bytes > Self::MAX_MESSAGE_LIMIT_BYTES,
                "max_message_bytes",
                "is above 256 MiB",
            ),
            (self.max_connections == 0, "max_connections", "is 0"),
            (self.schema.is_empty(), "schema", "is empty"),
            (self.schema.len() > 63, "schema", "is longer than 63 bytes"),
            (self.schema.contains('\0'), "schema", "has a NUL character"),
            (self.schema.starts_with("pg_"), "schema", "begins with pg_, which is reserved"),
            zero("connect_timeout", self.connect_timeout),
            zero("statement_timeout", self.statement_timeout),
            zero("poll", self.poll),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            Some((_, field, problem)) => Err(Invalid::new(field, problem)),
            None => Ok(()),
        }
    }
}

/// Whether the server is on this machine, so that the connection does not cross a network.
fn is_local(server: &PgConnectOptions) -> bool {
    let host = server.get_host().trim_start_matches('[').trim_end_matches(']');
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    server.get_socket().is_some() || loopback || host == "localhost" || host.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> String {
        format!("{:?}", Options::from_url(url).unwrap().server.0.get_ssl_mode())
    }

    #[test]
    fn certificates_are_verified_except_on_this_machine() {
        for (url, expected) in [
            ("postgres://u@db.example.org/x", "VerifyFull"),
            ("postgres://u@db.example.org/x?sslmode=require", "Require"),
            ("postgres://u@10.0.0.7/x?application_name=lab", "VerifyFull"),
            ("postgres://u@localhost/x", "Prefer"),
            ("postgres://u@127.0.0.1:5433/x", "Prefer"),
            ("postgresql://u@[::1]/x", "Prefer"),
        ] {
            assert_eq!(mode(url), expected, "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let options = Options::from_url("postgres://u:CANARY@db.example.org/lab").unwrap();
        let shown = format!("{options:?}");
        assert!(!shown.contains("CANARY") && shown.contains("db.example.org"), "{shown}");
        for bad in ["postgres://u:CANARY@host:99999/x", "sqlite:CANARY", "CANARY"] {
            let refused = Options::from_url(bad).unwrap_err().to_string();
            assert!(!refused.contains("CANARY"), "{refused}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        let good = || Options::from_url("postgres://localhost/x").unwrap();
        assert!(good().check().is_ok());
        for (options, field) in [
            (Options { max_message_bytes: usize::MAX, ..good() }, "max_message_bytes"),
            (Options { max_connections: 0, ..good() }, "max_connections"),
            (Options { schema: String::new(), ..good() }, "schema"),
            (Options { schema: "pg_lab".to_owned(), ..good() }, "schema"),
            (Options { poll: Duration::ZERO, ..good() }, "poll"),
        ] {
            let refused = options.check().unwrap_err();
            assert!(refused.to_string().contains(field), "{refused}");
        }
    }
}

//! `[store]`: where messages are stored.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    broker::{POSTGRES_SCHEMES, PostgresConfig},
    config::{
        InvalidValue, Kind,
        reader::{Section, SectionReader},
        tree::Value,
        values::{Parsed, text},
    },
};

/// Where messages are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The file or the database.
    pub place: StorePlace,
}

/// The file or the database of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// An SQLite file: the embedded store.
    Sqlite(SqliteConfig),
    /// A PostgreSQL database, which several gateways can share.
    Postgres(Box<PostgresStoreConfig>),
}

/// An SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteConfig {
    file: StoreFile,
    /// The maximum size, beyond which new messages are refused.
    pub max_size_bytes: Option<u64>,
    /// How large the write-ahead log may grow while a reader keeps it from being checkpointed.
    pub max_log_bytes: u64,
}

/// A PostgreSQL database, and what the gateway keeps outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresStoreConfig {
    /// The database.
    pub database: PostgresConfig,
    /// The folder of files that belong to this gateway alone.
    pub folder: PathBuf,
}

/// Keys that only an SQLite file has, and those that only a database has.
const ONLY_SQLITE: [&str; 2] = ["max_size", "max_log"];
const ONLY_POSTGRES: [&str; 11] = [
    "folder",
    "user",
    "password",
    "schema",
    "migrate",
    "transaction_pooling",
    "max_connections",
    "connect_timeout",
    "statement_timeout",
    "poll",
    "tls_ca",
];

impl StoreConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        let is_database = reader.names_scheme(section, "url", POSTGRES_SCHEMES);
        let foreign = match is_database {
            true => (&ONLY_SQLITE[..], "is only for an SQLite store", "remove it"),
            false => (
                &ONLY_POSTGRES[..],
                "is only for a PostgreSQL store",
                "remove it, or set store.url to postgres://…",
            ),
        };
        for key in foreign.0.iter().filter(|key| section.has(key)) {
            reader.refuse(section, key, InvalidValue::new(foreign.1, foreign.2));
        }
        let database = is_database.then(|| PostgresStoreConfig::read(reader, section)).flatten();
        let place = match database {
            Some(database) => StorePlace::Postgres(Box::new(database)),
            None if is_database => StorePlace::Sqlite(SqliteConfig::default()), // refused anyway
            None => StorePlace::Sqlite(SqliteConfig::read(reader, section)),
        };
        Self { place }
    }

    /// The folder for files that belong to this gateway alone: the generated token, the noted head of the audit log.
    pub fn folder(&self) -> &Path {
        match &self.place {
            StorePlace::Sqlite(sqlite) => sqlite.path().parent().unwrap_or(Path::new("")),
            StorePlace::Postgres(postgres) => &postgres.folder,
        }
    }

    /// The SQLite file, if it is one.
    pub fn sqlite(&self) -> Option<&SqliteConfig> {
        match &self.place {
            StorePlace::Sqlite(sqlite) => Some(sqlite),
            StorePlace::Postgres(_) => None,
        }
    }

    /// Its URL, without a password.
    pub fn url(&self) -> String {
        match &self.place {
            StorePlace::Sqlite(sqlite) => sqlite.file.shown(),
            StorePlace::Postgres(postgres) => postgres.database.shown_url(),
        }
    }
}

/// For people: the path of a file, or the URL of a database without its password.
impl fmt::Display for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            StorePlace::Sqlite(sqlite) => sqlite.path().display().fmt(f),
            StorePlace::Postgres(postgres) => f.write_str(&postgres.database.shown_url()),
        }
    }
}

impl SqliteConfig {
    fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            file: reader.or_default(section, "url"),
            max_size_bytes: reader.optional(section, "max_size"),
            max_log_bytes: reader.or_default(section, "max_log"),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.0
    }
}

impl Default for SqliteConfig {
    fn default() -> Self {
        let file = StoreFile(PathBuf::from("bezoar-data/bezoar.db"));
        Self { file, max_size_bytes: None, max_log_bytes: 1 << 30 }
    }
}

impl PostgresStoreConfig {
    fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        let folder = reader.or_default(section, "folder");
        Some(Self { database: PostgresConfig::read(reader, section)?, folder })
    }
}

/// A file given as `sqlite:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoreFile(PathBuf);

impl Parsed for StoreFile {
    /// The text is not quoted in errors: it may contain a password.
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        let scheme = text.split(':').next().filter(|scheme| scheme.len() < text.len());
        let known = "use sqlite:PATH, for example sqlite:bezoar-data/bezoar.db, or postgres://USER@HOST/DATABASE";
        match scheme {
            _ if text.contains(char::is_control) => {
                Err(InvalidValue::new("contains a control character", known))
            }
            Some("sqlite") => bezoar::sqlite::Options::from_url(text)
                .map(|options| Self(options.path))
                .map_err(|_| InvalidValue::new("has no file path", known)),
            Some("memory") => Err(InvalidValue::new(
                "is an in-memory store, which loses messages at a restart",
                known,
            )),
            Some("env" | "file") => {
                Err(InvalidValue::new("refers to something other than a PostgreSQL URL", known))
            }
            Some(_) => Err(InvalidValue::new("has an unknown scheme", known)),
            None => Err(InvalidValue::new("has no scheme", known)),
        }
    }

    fn shown(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    fn parse(text: &str) -> Result<String, String> {
        let parsed = StoreFile::parse(&Kind::StoreUrl, &Value::Text(text.to_owned()));
        parsed.map(|file| file.shown()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn an_embedded_store_is_an_sqlite_file() {
        assert_eq!(parse("sqlite:a/b.db").unwrap(), "sqlite:a/b.db");
        assert_eq!(parse("sqlite:///a/b.db").unwrap(), "sqlite:/a/b.db");
    }

    #[test]
    fn other_stores_are_rejected_without_quoting_the_url() {
        for (text, part) in [
            ("memory:", "in-memory"),
            ("CANARY:x", "an unknown scheme"),
            ("CANARY.db", "no scheme"),
            ("sqlite:", "no file path"),
            ("sqlite::memory:", "no file path"),
            ("", "no scheme"),
            ("sqlite:a\u{1b}[31m", "control character"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && error.contains("sqlite:PATH"), "{error}");
            assert!(!error.contains("CANARY"), "{error}");
        }
    }

    #[test]
    fn the_keys_of_a_database_are_those_of_the_transport() {
        let of_store = keys().iter().filter(|key| key.transport == Some("PostgreSQL"));
        let of_store: Vec<_> = of_store.filter_map(|key| key.path.strip_prefix("store.")).collect();
        assert_eq!(of_store, ONLY_POSTGRES);
    }
}

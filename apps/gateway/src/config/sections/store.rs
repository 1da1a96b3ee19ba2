//! `[store]`: where messages are stored.

use std::path::{Path, PathBuf};

use crate::config::{
    InvalidValue, Kind,
    reader::{Section, SectionReader},
    tree::Value,
    values::{Parsed, text},
};

/// Where messages are stored: an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    file: StoreFile,
    /// The maximum size, beyond which new messages are refused.
    pub max_size_bytes: Option<u64>,
    /// How large the write-ahead log may grow while a reader keeps it from being checkpointed.
    pub max_log_bytes: u64,
}

impl StoreConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
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

    /// `sqlite:PATH`.
    pub fn url(&self) -> String {
        self.file.shown()
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
        let known = "use sqlite:PATH, for example sqlite:bezoar-data/bezoar.db";
        match scheme {
            _ if text.contains(char::is_control) => {
                Err(InvalidValue::new("contains a control character", known))
            }
            Some("sqlite") => bezoar::sqlite::Options::from_url(text)
                .map(|options| Self(options.path))
                .map_err(|_| InvalidValue::new("has no file path", known)),
            Some("postgres" | "postgresql") => {
                Err(InvalidValue::new("is a PostgreSQL URL, which is not supported yet", known))
            }
            Some("memory") => Err(InvalidValue::new(
                "is an in-memory store, which loses messages at a restart",
                known,
            )),
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

    fn parse(text: &str) -> Result<String, String> {
        let parsed = StoreFile::parse(&Kind::StoreUrl, &Value::Text(text.to_owned()));
        parsed.map(|file| file.shown()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_store_is_an_sqlite_file() {
        assert_eq!(parse("sqlite:a/b.db").unwrap(), "sqlite:a/b.db");
        assert_eq!(parse("sqlite:///a/b.db").unwrap(), "sqlite:/a/b.db");
    }

    #[test]
    fn other_stores_are_rejected_without_quoting_the_url() {
        for (text, part) in [
            ("postgres://u:CANARY@h/db", "PostgreSQL URL"),
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
}

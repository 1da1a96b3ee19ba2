//! `[store]`: where messages are kept.

use std::path::{Path, PathBuf};

use crate::config::{
    InvalidValue, Kind,
    reader::{Section, SectionReader},
    tree::Value,
    values::{Parsed, text},
};

/// Where messages are kept: an SQLite file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    file: StoreFile,
    /// How large it may grow before new messages are refused.
    pub max_size_bytes: Option<u64>,
}

impl StoreConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            file: reader.or_default(section, "url"),
            max_size_bytes: reader.optional(section, "max_size"),
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

/// A file that is named as `sqlite:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoreFile(PathBuf);

impl Parsed for StoreFile {
    /// What was written is in no message: it may hold a password.
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        let scheme = text.split(':').next().filter(|scheme| scheme.len() < text.len());
        let known = "sqlite:PATH is known, for example sqlite:bezoar-data/bezoar.db";
        match scheme {
            _ if text.contains(char::is_control) => {
                Err(InvalidValue::new("has a control character in it", known))
            }
            Some("sqlite") => bezoar::sqlite::Options::from_url(text)
                .map(|options| Self(options.path))
                .map_err(|_| InvalidValue::new("names no file", known)),
            Some("postgres" | "postgresql") => {
                Err(InvalidValue::new("is a PostgreSQL URL, which is not known so far", known))
            }
            Some("memory") => {
                Err(InvalidValue::new("is in memory, where messages do not last", known))
            }
            Some(_) => Err(InvalidValue::new("has a scheme that is not known", known)),
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
    fn other_stores_are_refused_with_what_is_known_and_without_what_was_written() {
        for (text, part) in [
            ("postgres://u:CANARY@h/db", "PostgreSQL URL"),
            ("memory:", "in memory"),
            ("CANARY:x", "a scheme that is not known"),
            ("CANARY.db", "no scheme"),
            ("sqlite:", "no file"),
            ("sqlite::memory:", "no file"),
            ("", "no scheme"),
            ("sqlite:a\u{1b}[31m", "control character"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && error.contains("sqlite:PATH"), "{error}");
            assert!(!error.contains("CANARY"), "{error}");
        }
    }
}

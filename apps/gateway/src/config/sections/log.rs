//! `[log]`: what is logged, and how.

use std::fmt;

use crate::config::{
    InvalidValue, Kind,
    names::choice,
    reader::{Section, SectionReader},
    tree::Value,
    values::{Parsed, text},
};

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// For people or for programs.
    pub format: LogFormat,
    /// The least level that is logged.
    pub level: LogLevel,
    /// Levels for parts, instead of `level`.
    pub filter: Option<LogFilter>,
}

impl LogConfig {
    pub(in crate::config) fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Self {
        Self {
            format: reader.or_default(section, "format"),
            level: reader.or_default(section, "level"),
            filter: reader.optional(section, "filter"),
        }
    }

    /// What an `EnvFilter` of `tracing-subscriber` is made of.
    pub fn directives(&self) -> &str {
        self.filter.as_ref().map_or(self.level.as_str(), LogFilter::as_str)
    }
}

choice! {
    /// How lines of the log look.
    LogFormat {
        /// For people.
        Text = "text",
        /// For programs: one JSON object a line.
        Json = "json",
    }
}

choice! {
    /// The least level that is logged.
    LogLevel {
        /// Nothing.
        Off = "off",
        /// What needs somebody.
        Error = "error",
        /// What may need somebody.
        Warn = "warn",
        /// What happened.
        Info = "info",
        /// How it happened.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

/// Levels for parts: `info,bezoar=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(Box<str>);

impl LogFilter {
    /// The directives.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Parsed for LogFilter {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        if text.split(',').map(str::trim).all(is_directive) {
            return Ok(Self(text.into()));
        }
        let remedy = format!(
            "write levels and parts like \"info,bezoar=debug\"; levels are {}",
            LogLevel::NAMES.join(", ")
        );
        Err(InvalidValue::not_a("filter", text, remedy))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// A level, or a part and its level.
fn is_directive(text: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let (part, level) = text.split_once('=').unwrap_or(("_", text));
    LogLevel::NAMES.contains(&level) && !part.is_empty() && part.chars().all(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_and_parts() {
        let parse = |text: &str| LogFilter::parse(&Kind::Filter, &Value::Text(text.to_owned()));
        for good in ["info", "warn,bezoar=debug", "info, hyper::client=off"] {
            assert_eq!(parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "loud", "bezoar", "=info", "bezoar=", "bezoar=loud", "a b=info", "info,"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_filter_takes_the_place_of_the_level() {
        let filter = Some(LogFilter("warn".into()));
        let mut log = LogConfig { format: LogFormat::Text, level: LogLevel::Info, filter };
        assert_eq!(log.directives(), "warn");
        log.filter = None;
        assert_eq!(log.directives(), "info");
    }
}

//! `[log]`: what is logged, and in which format.

use std::fmt;

use crate::config::{
    InvalidValue, Kind,
    names::choice,
    reader::{Section, SectionReader},
    tree::Value,
    values::{Parsed, text},
};

/// What is logged, and in which format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// Text or JSON.
    pub format: LogFormat,
    /// The minimum level that is logged.
    pub level: LogLevel,
    /// Levels by module, instead of `level`.
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

    /// The directives for an `EnvFilter` of `tracing-subscriber`.
    pub fn directives(&self) -> &str {
        self.filter.as_ref().map_or(self.level.as_str(), LogFilter::as_str)
    }
}

choice! {
    /// The format of log lines.
    LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

choice! {
    /// The minimum level that is logged.
    LogLevel {
        /// Nothing.
        Off = "off",
        /// Errors that need attention.
        Error = "error",
        /// Warnings that may need attention.
        Warn = "warn",
        /// Notable events.
        Info = "info",
        /// Details for debugging.
        Debug = "debug",
        /// Every step.
        Trace = "trace",
    }
}

/// Levels by module: `info,bezoar=debug`.
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
            "use levels and modules such as \"info,bezoar=debug\"; levels are {}",
            LogLevel::NAMES.join(", ")
        );
        Err(InvalidValue::not_a("filter", text, remedy))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// A level, or a module and its level.
fn is_directive(text: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let (part, level) = text.split_once('=').unwrap_or(("_", text));
    LogLevel::NAMES.contains(&level) && !part.is_empty() && part.chars().all(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_levels_and_modules() {
        let parse = |text: &str| LogFilter::parse(&Kind::Filter, &Value::Text(text.to_owned()));
        for good in ["info", "warn,bezoar=debug", "info, hyper::client=off"] {
            assert_eq!(parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "loud", "bezoar", "=info", "bezoar=", "bezoar=loud", "a b=info", "info,"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_filter_overrides_the_level() {
        let filter = Some(LogFilter("warn".into()));
        let mut log = LogConfig { format: LogFormat::Text, level: LogLevel::Info, filter };
        assert_eq!(log.directives(), "warn");
        log.filter = None;
        assert_eq!(log.directives(), "info");
    }
}

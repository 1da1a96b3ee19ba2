//! Parses durations in arguments, which look as they do in the configuration: `5s`, `250ms`, `1h30m`.

use std::time::Duration;

use bezoar_gateway::config::human;

/// Parses whole numbers, each with a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    // The parser's error describes a configured value.
    human::duration::parse(text).map_err(|_| "expected a duration such as 5s, 250ms or 1h30m")
}

//! Peers: other programs that do the same work, each in a process of its own, which prints one line of JSON.

pub mod cargo;
pub mod node;
pub mod process;
pub mod python;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// What every peer prints.
#[derive(Debug, Deserialize)]
pub struct Line {
    /// How fast it was.
    pub processed_per_second: f64,
    /// How it was set up, for the notes under the table.
    pub settings: String,
}

impl Line {
    /// Reads the last line of what a peer printed.
    pub fn parse(output: &str) -> Result<Line> {
        let last = output.lines().last().context("it printed nothing")?;
        serde_json::from_str(last).with_context(|| format!("it printed {last:?}"))
    }
}

/// Why there is no number. One line: it goes into a table.
pub fn reason(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().collect::<Vec<_>>().join(" ")
}

/// A peer's file must be there: a missing one is our mistake, not the network's.
fn existing(path: &Path) -> Result<&Path> {
    path.try_exists()?.then_some(path).with_context(|| format!("{} is missing", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_result() {
        let output =
            "warming up\n{\"peer\":\"p\",\"processed_per_second\":2.5,\"settings\":\"s\"}\n";
        assert_eq!(Line::parse(output).unwrap().processed_per_second, 2.5);
    }

    #[test]
    fn anything_else_is_an_error_not_a_number() {
        for output in ["", "done\n", "{\"peer\":\"p\"}"] {
            assert!(Line::parse(output).is_err(), "{output:?}");
        }
    }
}

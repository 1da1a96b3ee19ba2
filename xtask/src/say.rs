//! The only place that prints to the terminal.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// Prints a line. A closed pipe (`cargo xtask tidy | head`) is not an error.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints a line to standard error.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

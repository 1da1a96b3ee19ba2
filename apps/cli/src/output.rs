//! Data goes to stdout, messages to stderr.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write},
};

use anyhow::{Context as _, Result};

use crate::{client::ApiReply, table::Table};

/// Writes data to stdout. Colours are removed unless it is a terminal, and with `NO_COLOR`.
///
/// `false` if the reader closed the pipe, as `| head` does: this is not an error.
pub(crate) fn print(text: &str) -> Result<bool> {
    let mut stdout = anstream::AutoStream::auto(io::stdout());
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to stdout"),
    }
}

/// Writes a line to stdout. If the reader closed the pipe, the rest is not written.
pub(crate) fn line(text: &str) -> Result<()> {
    print(&format!("{text}\n")).map(drop)
}

/// Writes a table: fitted to a terminal, whole for everything else.
pub(crate) fn print_table(table: &Table) -> Result<bool> {
    print(&fitted(table))
}

/// The text of a table, fitted if stdout is a terminal.
pub(crate) fn fitted(table: &Table) -> String {
    table.render_in(terminal_width().unwrap_or(usize::MAX))
}

/// The number of columns, if stdout is a terminal.
fn terminal_width() -> Option<usize> {
    let size = io::stdout().is_terminal().then(crossterm::terminal::size)?;
    size.ok().map(|(width, _)| width.into()).filter(|width| *width > 0)
}

/// Writes the gateway's JSON: unchanged for programs, indented on a terminal.
pub(crate) fn print_json(reply: &ApiReply) -> Result<bool> {
    if io::stdout().is_terminal() {
        let value: serde_json::Value = reply.parse()?;
        return print(&format!("{value:#}\n"));
    }
    print(&format!("{}\n", reply.json()?.get()))
}

/// Prints a message for a person to stderr.
pub(crate) fn say(words: &str) {
    // A closed stderr is not an error.
    let _ = writeln!(io::stderr(), "{}", printable(words));
}

/// Prints an error to stderr, which may have several lines.
pub(crate) fn say_lines(text: &str) {
    text.lines().for_each(say);
}

/// Prints a message only if stderr is a terminal.
pub(crate) fn hint(words: &str) {
    if io::stderr().is_terminal() {
        say(words);
    }
}

/// Replaces control characters and bidirectional overrides in untrusted text.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(is_unsafe) { text.replace(is_unsafe, "\u{fffd}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_cannot_control_a_terminal() {
        assert_eq!(printable("größe → 3 µs"), "größe → 3 µs");
        assert_eq!(
            printable("a\u{1b}[31m\r\u{9b}b\u{202e}"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}"
        );
    }
}

//! Data to stdout, words to stderr.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write},
};

use anyhow::{Context as _, Result};

use crate::client::ApiReply;

/// Writes data. Colours stay only on a terminal, and not with `NO_COLOR`.
///
/// `false` if nobody reads any more, as after `| head`: no reason to fail.
pub(crate) fn print(text: &str) -> Result<bool> {
    let mut stdout = anstream::AutoStream::auto(io::stdout());
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write the result"),
    }
}

/// Writes the gateway's JSON: as it came for programs, indented for people.
pub(crate) fn print_json(reply: &ApiReply) -> Result<bool> {
    if io::stdout().is_terminal() {
        let value: serde_json::Value = reply.parse()?;
        return print(&format!("{value:#}\n"));
    }
    print(&format!("{}\n", reply.json()?.get()))
}

/// Words for a person.
pub(crate) fn say(words: &str) {
    // Who closed stderr does not want to know.
    let _ = writeln!(io::stderr(), "{}", printable(words));
}

/// Words that would only be in the way of a program.
pub(crate) fn hint(words: &str) {
    if io::stderr().is_terminal() {
        say(words);
    }
}

/// Text that came from elsewhere, without what moves a cursor or turns writing around.
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
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(printable("größe → 3 µs"), "größe → 3 µs");
        assert_eq!(
            printable("a\u{1b}[31m\r\u{9b}b\u{202e}"),
            "a\u{fffd}[31m\u{fffd}\u{fffd}b\u{fffd}"
        );
    }
}

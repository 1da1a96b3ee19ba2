//! The full-screen terminal.

use std::io;

use anyhow::{Context as _, Result};
use ratatui::{DefaultTerminal, Frame};

/// The full-screen terminal, restored on drop, and by a panic before its message is printed.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn enter() -> Result<Self> {
        ratatui::try_init().map(Self).context("cannot take over the terminal")
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing to restore if the terminal was closed.
        let _ = ratatui::try_restore();
    }
}

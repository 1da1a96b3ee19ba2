//! The terminal while it is ours.

use std::io;

use anyhow::{Context as _, Result};
use ratatui::{DefaultTerminal, Frame};

/// The whole terminal; given back as it was when dropped, and by a panic before its words are printed.
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
        // Whoever closed the terminal needs nothing given back.
        let _ = ratatui::try_restore();
    }
}

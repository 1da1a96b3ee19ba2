//! How far it is, for those who wait at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::humanize;

/// A bar on stderr; nothing at all if that is no terminal.
pub(super) struct SendProgress(ProgressBar);

impl SendProgress {
    /// A bar if it is known how much there is, otherwise something that moves.
    pub(super) fn new(size: Option<u64>) -> Self {
        let (bar, template) = match size {
            Some(size) => (ProgressBar::new(size), "{bar:30} {percent:>3} %  {msg}  {eta} left"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message("sending");
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// So much of the input is done, so many messages are accepted by now.
    pub(super) fn advance(&self, bytes: u64, accepted: u64) {
        self.0.inc(bytes);
        let rate = accepted as f64 / self.0.elapsed().as_secs_f64().max(0.001);
        let accepted = humanize::plural(accepted, "message");
        self.0.set_message(format!("{accepted}, {} a second", humanize::rate(rate)));
    }

    /// Does something to the terminal without the bar in its way.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.0.suspend(act)
    }

    /// Takes the bar away; returns how long it took.
    pub(super) fn finish(&self) -> Duration {
        let elapsed = self.0.elapsed();
        self.0.finish_and_clear();
        elapsed
    }
}

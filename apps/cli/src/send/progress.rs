//! A progress bar, shown on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::humanize;

/// A progress bar on stderr; nothing if stderr is not a terminal.
pub(super) struct SendProgress(ProgressBar);

impl SendProgress {
    /// A bar if the size is known, otherwise a spinner.
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

    /// Advances by `bytes` of the input; `accepted` is the total so far.
    pub(super) fn advance(&self, bytes: u64, accepted: u64) {
        self.0.inc(bytes);
        let rate = accepted as f64 / self.0.elapsed().as_secs_f64().max(0.001);
        let accepted = humanize::plural(accepted, "message");
        self.0.set_message(format!("{accepted}, {}/s", humanize::rate(rate)));
    }

    /// Runs `act` while the bar is hidden.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.0.suspend(act)
    }

    /// Removes the bar; returns the elapsed time.
    pub(super) fn finish(&self) -> Duration {
        let elapsed = self.0.elapsed();
        self.0.finish_and_clear();
        elapsed
    }
}

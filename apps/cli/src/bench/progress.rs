//! A progress bar, shown on a terminal.

use std::{convert::Infallible, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

use super::{SendLimit, load::Load, target::BenchTarget};
use crate::humanize;

const EVERY: Duration = Duration::from_millis(100);

/// Shows a bar on stderr until it is dropped; nothing if stderr is not a terminal.
pub(super) async fn show(load: &Load, target: &BenchTarget) -> Infallible {
    let bar = LoadProgress::new(load.limit);
    loop {
        let accepted = load.accepted();
        bar.0.set_position(match load.limit {
            SendLimit::Messages(_) => accepted,
            SendLimit::Time(_) => load.started.elapsed().as_millis() as u64,
        });
        let rate = accepted as f64 / load.started.elapsed().as_secs_f64().max(0.001);
        let arrived = target.arrivals.as_ref().map(|arrivals| arrivals.count());
        let delivered = humanize::count_or_unknown(arrived);
        let (accepted, rate) = (humanize::count(accepted), humanize::rate(rate));
        bar.0.set_message(format!("accepted {accepted} ({rate}/s), delivered {delivered}"));
        sleep(EVERY).await;
    }
}

struct LoadProgress(ProgressBar);

impl LoadProgress {
    fn new(limit: SendLimit) -> Self {
        let length = match limit {
            SendLimit::Messages(messages) => messages,
            SendLimit::Time(time) => time.as_millis() as u64,
        };
        let bar = ProgressBar::new(length);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Drop for LoadProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

//! How far it is, for those who wait at a terminal.

use std::{convert::Infallible, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;

use super::{Limit, load::Load, target::Target};
use crate::words;

const EVERY: Duration = Duration::from_millis(100);

/// A bar on stderr, until this is dropped; nothing at all if that is no terminal.
pub(super) async fn show(load: &Load, target: &Target) -> Infallible {
    let bar = Bar::new(load.limit);
    loop {
        let accepted = load.accepted();
        bar.0.set_position(match load.limit {
            Limit::Messages(_) => accepted,
            Limit::Time(_) => load.started.elapsed().as_millis() as u64,
        });
        let rate = accepted as f64 / load.started.elapsed().as_secs_f64().max(0.001);
        let arrived = target.arrivals.as_ref().map(|arrivals| arrivals.count());
        let delivered = words::count_or_unknown(arrived);
        let (accepted, rate) = (words::count(accepted), words::rate(rate));
        bar.0.set_message(format!("accepted {accepted} ({rate} a second), delivered {delivered}"));
        sleep(EVERY).await;
    }
}

struct Bar(ProgressBar);

impl Bar {
    fn new(limit: Limit) -> Self {
        let length = match limit {
            Limit::Messages(messages) => messages,
            Limit::Time(time) => time.as_millis() as u64,
        };
        let bar = ProgressBar::new(length);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

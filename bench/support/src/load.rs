//! Whether the machine was busy with something else: then even ratios say little.

use std::fs;

/// The load average around a run, where the system tells it.
#[derive(Debug)]
pub struct Window {
    before: Option<String>,
}

impl Window {
    /// Before the run.
    pub fn open() -> Window {
        Window { before: average() }
    }

    /// For the notes under the table.
    pub fn close(self) -> String {
        let [before, after] =
            [self.before, average()].map(|load| load.unwrap_or_else(|| "unknown".to_owned()));
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        format!("load: {before} before, {after} after, {processors} processors")
    }
}

/// Over the last minute.
fn average() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next().map(str::to_owned)
}

//! What benchmarks share: bare SQLite as the limit, rates and their medians, the table, where files go, and
//! how peers are installed and run.

pub mod limit;
pub mod load;
mod measurement;
pub mod peers;
mod percentiles;
mod place;
mod report;

use std::io::{self, Write as _};

pub use measurement::{Measurement, Rounds};
pub use percentiles::Percentiles;
pub use place::Place;
pub use report::Report;

/// Messages in one transaction of the batched measurements.
pub const BATCH: u32 = 256;

/// What is going on, where it does not mix with the table; losing such a line harms nobody.
pub fn progress(what: &str) {
    let _ = writeln!(io::stderr().lock(), "{what}");
}

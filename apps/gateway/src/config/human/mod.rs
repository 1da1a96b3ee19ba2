//! Parses and formats durations, sizes and rates: `"1h30m"`, `"16MiB"`, `"100/s"`.
//!
//! ```
//! use bezoar_gateway::config::human::{duration, size};
//!
//! let pause = duration::parse("1h30m")?;
//! assert_eq!(pause.as_secs(), 5_400);
//! assert_eq!(duration::format(pause), "1h30m");
//! assert_eq!(size::parse("16 MiB")?, 16 * 1024 * 1024);
//! # Ok::<(), bezoar_gateway::config::InvalidValue>(())
//! ```

pub mod duration;
mod rate;
pub mod size;

pub use rate::Rate;

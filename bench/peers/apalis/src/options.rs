//! What to measure.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Times apalis-sqlite on a backlog of 1 KiB jobs.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// How many jobs to process.
    #[arg(long, default_value_t = 3_000)]
    pub(crate) messages: u64,
    /// An empty directory for the database.
    #[arg(long)]
    pub(crate) directory: PathBuf,
    /// How far to depart from what the README shows.
    #[arg(long, value_enum, default_value_t = Mode::AsItComes)]
    pub(crate) mode: Mode,
}

/// How the storage and the worker are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// As the README shows it: `SqliteStorage::setup` on the worker's pool, default `Config`.
    AsItComes,
    /// The same, but every connection has `synchronous = FULL`, like the limit and the product.
    Durable,
    /// Durable, with the database's statistics gathered and larger batches: the best we could get.
    Best,
}

impl Mode {
    /// Ten is the default of apalis; of 10, 100, 256, 1000 and 4000 a thousand was fastest.
    pub(crate) fn batch_size(self) -> usize {
        match self {
            Mode::AsItComes | Mode::Durable => 10,
            Mode::Best => 1000,
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Mode::AsItComes => "as it comes",
            Mode::Durable => "made durable",
            Mode::Best => "made durable, after ANALYZE",
        }
    }
}

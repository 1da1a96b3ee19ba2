//! Times apalis-sqlite on a backlog of 1 KiB jobs with a no-op handler.
//!
//! Prints one line of JSON: `{"peer": …, "processed_per_second": …, "settings": …}`.

mod options;
mod storage;
mod worker;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser as _;

use crate::options::Options;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let pool = storage::open_filled(&options).await?;

    let start = Instant::now();
    worker::run(&pool, &options).await?;
    let elapsed = start.elapsed();

    let done = storage::count_done(&pool).await?;
    ensure!(done == options.messages, "only {done} of {} jobs are done", options.messages);
    print_result(&options, elapsed, &storage::synchronous(&pool).await?);
    Ok(())
}

fn print_result(options: &Options, elapsed: Duration, synchronous: &str) {
    let settings = format!(
        "{}, WAL, {synchronous}, batch_size {}, {} jobs",
        options.mode.describe(),
        options.mode.batch_size(),
        options.messages,
    );
    let line = serde_json::json!({
        "peer": "apalis-sqlite",
        "processed_per_second": options.messages as f64 / elapsed.as_secs_f64(),
        "settings": settings,
    });
    println!("{line}");
}

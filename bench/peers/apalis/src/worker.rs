//! The worker: a handler that does nothing but count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use apalis::prelude::{BoxDynError, Data, WorkerBuilder, WorkerContext};
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};

use crate::options::Options;
use crate::storage::Job;

/// Returns when every job is processed and acknowledged: stopping flushes what is pending.
pub(crate) async fn run(pool: &SqlitePool, options: &Options) -> Result<()> {
    let config =
        Config::default().queue(std::any::type_name::<Job>()).batch_size(options.mode.batch_size());
    let backend = SqliteStorage::<Job>::new(pool).with_config(config);
    WorkerBuilder::new("bench")
        .backend(backend)
        .data(Arc::new(AtomicU64::new(options.messages)))
        .build(handle)
        .run()
        .await
        .map_err(|error| anyhow!("the worker stopped: {error}"))
}

async fn handle(
    _job: Job,
    left: Data<Arc<AtomicU64>>,
    worker: WorkerContext,
) -> Result<(), BoxDynError> {
    if left.0.fetch_sub(1, Ordering::Relaxed) == 1 {
        worker.stop()?;
    }
    Ok(())
}

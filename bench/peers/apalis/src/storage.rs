//! The database: opened as the options ask, filled, counted.

use std::collections::BTreeSet;

use anyhow::Result;
use apalis::prelude::TaskSink as _;
use apalis_sqlite::{SqliteConnectOptions, SqlitePool, SqliteStorage};

use crate::options::{Mode, Options};

/// Text and not bytes: apalis encodes jobs as JSON, where bytes become a list of numbers.
pub(crate) type Job = String;

const BODY_BYTES: usize = 1024;
const FILL_BATCH: u64 = 1000;

/// A database with the backlog in it, and the pool that the worker is to use.
pub(crate) async fn open_filled(options: &Options) -> Result<SqlitePool> {
    let file = options.directory.join("apalis.db");
    let connect = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePool::connect_with(connect.clone()).await?;
    SqliteStorage::setup(&pool).await?;
    fill(&pool, options.messages).await?;
    match options.mode {
        Mode::AsItComes => Ok(pool),
        Mode::Durable => reopen_durable(pool, connect).await,
        Mode::Best => {
            analyze(&pool).await?;
            reopen_durable(pool, connect).await
        }
    }
}

/// `setup` turns `synchronous` off for the connection it runs on, so that connection must go;
/// and statistics are read when a connection opens.
async fn reopen_durable(pool: SqlitePool, connect: SqliteConnectOptions) -> Result<SqlitePool> {
    pool.close().await;
    Ok(SqlitePool::connect_with(connect.pragma("synchronous", "FULL")).await?)
}

/// With statistics SQLite finds jobs by their id. Without them every acknowledgement walks all
/// jobs that the worker ever locked, and every lock all that wait. The samples must go: they say
/// that the worker has no jobs, which is no longer true once it runs.
async fn analyze(pool: &SqlitePool) -> Result<()> {
    sqlx::query("ANALYZE").execute(pool).await?;
    sqlx::query("DELETE FROM sqlite_stat4").execute(pool).await?;
    Ok(())
}

async fn fill(pool: &SqlitePool, messages: u64) -> Result<()> {
    let mut storage = SqliteStorage::<Job>::new(pool);
    let body = "x".repeat(BODY_BYTES);
    let mut left = messages;
    while left > 0 {
        let count = left.min(FILL_BATCH);
        storage.push_bulk((0..count).map(|_| body.clone()).collect()).await?;
        left -= count;
    }
    Ok(())
}

pub(crate) async fn count_done(pool: &SqlitePool) -> Result<u64> {
    let done: i64 = sqlx::query_scalar("SELECT count(*) FROM Jobs WHERE status = 'Done'")
        .fetch_one(pool)
        .await?;
    Ok(done.try_into()?)
}

/// What the pool's connections really use: the pragma belongs to a connection, not to the file.
pub(crate) async fn synchronous(pool: &SqlitePool) -> Result<String> {
    let mut held = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..pool.size() {
        let mut connection = pool.acquire().await?;
        let value: i64 =
            sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
        seen.insert(value.to_string());
        held.push(connection);
    }
    let seen = seen.into_iter().collect::<Vec<_>>().join(" and ");
    Ok(format!("synchronous {seen} on {} connections", held.len()))
}

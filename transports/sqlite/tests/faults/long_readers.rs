//! A read transaction that another program does not end, so that SQLite cannot reuse the write-ahead
//! log.

use std::fs;

use bezoar_core::{ErrorKind, QueueAdmin, Settlement, Severity};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{sql::*, support::*};

const LOG_LIMIT: u64 = 8 * 1024 * 1024;

#[tokio::test]
async fn a_log_that_a_reader_keeps_growing_is_reported_and_bounded() {
    let folder = folder();
    let path = file_in(&folder);
    let options = Options { max_log_bytes: LOG_LIMIT, ..Options::new(&path) };
    let transport = open_transport(options).await;
    assert!(transport.validate(&queue()).await.unwrap().is_empty());
    let reader = reading(&path);
    let accepted = send_until_full(&transport, "long read transaction").await;
    let log_bytes = fs::metadata(folder.path().join("lab.db-wal")).unwrap().len();
    assert!((LOG_LIMIT..2 * LOG_LIMIT).contains(&log_bytes), "{log_bytes}");
    let findings = transport.validate(&queue()).await.unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert!(findings[0].problem.contains("write-ahead log"), "{}", findings[0].problem);
    let held = receive(&transport, 10).await;
    settle(&transport, held, |_| Settlement::Complete).await; // stored messages can still be handled
    drop(reader);
    send(&transport, &message("afterwards", noise(1))).await.unwrap();
    assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(accepted - 10 + 1));
}

#[tokio::test]
async fn a_log_that_a_reader_keeps_growing_counts_toward_the_size_of_the_store() {
    let folder = folder();
    let path = file_in(&folder);
    let options = Options { max_bytes: Some(30_000_000), ..Options::new(&path) };
    let transport = open_transport(options).await;
    let _reader = reading(&path);
    let accepted = send_until_full(&transport, "configured size").await;
    let used = fs::metadata(&path).unwrap().len()
        + fs::metadata(folder.path().join("lab.db-wal")).unwrap().len();
    assert!(used < 40_000_000, "{accepted} messages take {used} bytes");
}

#[tokio::test]
async fn a_log_that_nobody_blocks_stays_small() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    for number in 0..600 {
        send(&transport, &message(&number.to_string(), noise(50_000))).await.unwrap();
    }
    let log_bytes = fs::metadata(folder.path().join("lab.db-wal")).unwrap().len();
    assert!(log_bytes < 20_000_000, "{log_bytes}");
}

/// A program that starts a read transaction and does not end it.
fn reading(path: &std::path::Path) -> rusqlite::Connection {
    let reader = connection(path);
    reader.execute_batch("BEGIN; SELECT count(*) FROM bezoar_queues").unwrap();
    reader
}

/// How many messages were accepted until one was refused for this reason.
async fn send_until_full(transport: &SqliteTransport, reason: &str) -> u64 {
    for accepted in 0..2_000 {
        if let Err(refused) = send(transport, &message(&accepted.to_string(), noise(50_000))).await
        {
            assert_eq!(refused.kind, ErrorKind::Full, "{}", everything(&refused));
            assert!(everything(&refused).contains(reason), "{}", everything(&refused));
            return accepted;
        }
    }
    panic!("nothing was refused");
}

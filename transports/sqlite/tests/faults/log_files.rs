//! The write-ahead log and its index, deleted, replaced or truncated while a transport has them open.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bezoar_core::{ErrorKind, QueueAdmin};
use bezoar_sqlite::{Options, SqliteTransport};
use tokio::task::JoinSet;

use super::{sql::*, support::*};

/// The name of a change to a file, and the function that makes it.
type Change = (&'static str, fn(&Path));

/// Changes to the name of a file. The file itself stays the same for every process that has it
/// open.
const RENAMINGS: [Change; 3] = [
    ("deleted", |file| fs::remove_file(file).unwrap()),
    ("replaced", |file| {
        let bytes = fs::read(file).unwrap();
        fs::remove_file(file).unwrap();
        fs::write(file, bytes).unwrap();
    }),
    ("replaced", |file| {
        fs::remove_file(file).unwrap();
        fs::write(file, "").unwrap();
    }),
];

#[tokio::test]
async fn a_log_that_is_deleted_or_replaced_stops_acceptance_and_loses_nothing() {
    for (what, attack) in RENAMINGS {
        let folder = folder();
        let transport = open_transport(Options::new(file_in(&folder))).await;
        let mut accepted = accepted_of(&transport, 0..20).await;
        assert_eq!(accepted.len(), 20);
        attack(&log_of(&folder));
        accepted.extend(accepted_of(&transport, 20..40).await);
        assert_eq!(accepted.len(), 20, "{what}: nothing more is accepted");
        let refused = send(&transport, &message("late", noise(1))).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
        for part in ["lab.db-wal was ", what, "start it again"] {
            assert!(everything(&refused).contains(part), "{}", everything(&refused));
        }
        let refused = transport.depth(&queue()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
        drop(transport);
        wait_until_closed(&file_in(&folder));
        assert_all_there(&file_in(&folder), &accepted).await;
    }
}

#[tokio::test]
async fn an_index_that_is_deleted_stops_acceptance() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    fs::remove_file(folder.path().join("lab.db-shm")).unwrap();
    let refused = send(&transport, &message("late", noise(1))).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unusable);
    assert!(everything(&refused).contains("lab.db-shm was deleted"), "{}", everything(&refused));
}

/// The log is removed during commits: commits that only it contains must not be acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_while_the_log_is_deleted_is_there_afterwards() {
    for round in 0..10 {
        let folder = folder();
        let transport = open_transport(Options::new(file_in(&folder))).await;
        let mut senders = JoinSet::new();
        for sender in 0..4_u32 {
            let transport = transport.clone();
            let first = sender * 10_000;
            senders.spawn(async move { accepted_of(&transport, first..first + 100).await });
        }
        let log = log_of(&folder);
        tokio::task::spawn_blocking(move || {
            wait_until(|| fs::metadata(&log).unwrap().len() > 4_096 * 10 * (1 + round));
            fs::remove_file(log).unwrap();
        })
        .await
        .unwrap();
        let accepted = senders.join_all().await.concat();
        assert!(accepted.len() < 400, "the log was removed too late");
        drop(transport);
        wait_until_closed(&file_in(&folder));
        assert_all_there(&file_in(&folder), &accepted).await;
    }
}

/// Changes to the bytes of a log.
const CHANGES: [Change; 6] = [
    ("emptied", |file| set_length(file, |_| 0)),
    ("cut to its header", |file| set_length(file, |_| 32)),
    ("cut to half", |file| set_length(file, |length| length / 2)),
    ("cut by a byte", |file| set_length(file, |length| length - 1)),
    ("overwritten by an older copy", |file| {
        let bytes = fs::read(file).unwrap();
        fs::write(file, &bytes[..32 + 2 * (24 + PAGE_BYTES)]).unwrap();
    }),
    ("without a header", |file| {
        let file = OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(&[0; 32], 0).unwrap();
    }),
];

#[tokio::test]
async fn a_log_that_is_changed_in_place_stops_acceptance_and_does_not_spread() {
    for (what, attack) in CHANGES {
        let folder = folder();
        let transport = open_transport(Options::new(file_in(&folder))).await;
        let accepted = accepted_of(&transport, 0..20).await;
        attack(&log_of(&folder));
        let late = accepted_of(&transport, 20..40).await;
        assert_eq!(late, [""; 0], "{what}");
        let refused = send(&transport, &message("late", noise(1))).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unusable, "{what}: {}", everything(&refused));
        for part in ["lab.db-wal was truncated or overwritten", "Restart this program"] {
            assert!(everything(&refused).contains(part), "{what}: {}", everything(&refused));
        }
        let refused = transport.depth(&queue()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unusable, "{what}");
        drop(transport);
        let found = everything_in(&file_in(&folder)).await; // the program is restarted
        assert!(found.iter().all(|id| accepted.contains(id)), "{what}: {found:?}");
        let intact = sqlite3(&file_in(&folder), "PRAGMA integrity_check");
        assert_eq!(intact.trim(), "ok", "{what}");
    }
}

#[tokio::test]
async fn a_checkpoint_by_another_process_is_no_fault() {
    let folder = folder();
    let path = file_in(&folder);
    let transport = open_transport(Options::new(&path)).await;
    for (round, mode) in (0..).zip(["PASSIVE", "FULL", "RESTART", "TRUNCATE"].repeat(3)) {
        assert_eq!(accepted_of(&transport, round * 10..round * 10 + 10).await.len(), 10, "{mode}");
        sqlite3(&path, &format!("PRAGMA wal_checkpoint({mode})"));
        assert_eq!(
            transport.depth(&queue()).await.unwrap().ready,
            Some(u64::from(round) * 10 + 10)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_of_others_at_any_moment_are_no_fault() {
    let folder = folder();
    let path = file_in(&folder);
    let transport = open_transport(Options::new(&path)).await;
    let over = Arc::new(AtomicBool::new(false));
    let (theirs, is_over) = (path.clone(), over.clone());
    let checkpoints = tokio::task::spawn_blocking(move || {
        let other = connection(&theirs);
        while !is_over.load(Ordering::Relaxed) {
            for mode in ["TRUNCATE", "RESTART"] {
                let pragma = format!("PRAGMA wal_checkpoint({mode})");
                other.query_row(&pragma, [], |_| Ok(())).unwrap();
            }
        }
    });
    let accepted = accepted_of(&transport, 0..300).await;
    over.store(true, Ordering::Relaxed);
    checkpoints.await.unwrap();
    assert_eq!(accepted.len(), 300);
    drop(transport);
    assert_eq!(everything_in(&path).await.len(), 300);
}

fn log_of(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("lab.db-wal")
}

/// Sends these messages and returns the ids of the accepted ones.
async fn accepted_of(transport: &SqliteTransport, numbers: std::ops::Range<u32>) -> Vec<String> {
    let mut accepted = Vec::new();
    for number in numbers {
        let id = number.to_string();
        if send(transport, &message(&id, noise(300))).await.is_ok() {
            accepted.push(id);
        }
    }
    accepted
}

async fn assert_all_there(path: &Path, accepted: &[String]) {
    let found = everything_in(path).await;
    let lost: Vec<_> = accepted.iter().filter(|id| !found.contains(id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

fn set_length(file: &Path, length: impl Fn(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

fn sqlite3(path: &Path, query: &str) -> String {
    String::from_utf8(run(Command::new("sqlite3").arg(path).arg(query)).stdout).unwrap()
}

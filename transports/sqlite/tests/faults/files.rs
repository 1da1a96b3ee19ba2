//! Damaged, foreign and unreadable files.

use std::{
    fs::{self, OpenOptions},
    num::NonZeroU32,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::Command,
    time::Duration,
};

use bezoar_core::{
    DeadLetterAccess, DeadLetterPage, ErrorKind, QueueAdmin, SubscribeOptions, Transport,
    TransportError,
};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{child_process::as_nobody, sql::*, support::*};

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = file_in(&folder);
    let text = b"# shopping list\nmilk\n".repeat(500);
    for bytes in [noise(20_000).to_vec(), text, b"milk".to_vec(), noise(100).to_vec()] {
        fs::write(&path, &bytes).unwrap();
        let refused = refusal(&path);
        assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
        assert!(everything(&refused).contains("no database"), "{}", everything(&refused));
        assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
    }
}

#[tokio::test]
async fn a_truncated_database_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = filled(&folder, 300).await;
    let whole = fs::read(&path).unwrap();
    for length in [whole.len() / 2, whole.len() - PAGE_BYTES, 5_000, 512] {
        fs::write(&path, &whole[..length]).unwrap();
        let refused = refusal(&path);
        assert_eq!(refused.kind, ErrorKind::Unusable, "{length}: {}", everything(&refused));
        assert!(everything(&refused).contains("backup"), "{}", everything(&refused));
        assert!(fs::read(&path).unwrap() == whole[..length], "the file was changed");
    }
    fs::write(&path, &whole).unwrap(); // the backup
    assert_eq!(everything_in(&path).await.len(), 300);
}

#[tokio::test]
async fn a_damaged_page_is_reported_and_no_message_is_made_up_from_it() {
    for table in ["bezoar_waiting", "bezoar_messages", "bezoar_queues"] {
        let folder = folder();
        let path = filled(&folder, 300).await;
        let root: u64 =
            one(&path, &format!("SELECT rootpage FROM sqlite_schema WHERE name = '{table}'"));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[0xA5; PAGE_BYTES], (root - 1) * PAGE_BYTES as u64).unwrap();
        let failed = work_with(&path).await.expect_err(table);
        assert_eq!(failed.kind, ErrorKind::Unusable, "{table}: {}", everything(&failed));
    }
}

#[test]
fn a_folder_in_place_of_the_file_or_no_folder_at_all_is_refused_with_what_to_do() {
    let folder = folder();
    for path in [folder.path().to_owned(), folder.path().join("missing").join("lab.db")] {
        let refused = refusal(&path);
        assert_eq!(refused.kind, ErrorKind::Unusable);
        assert!(everything(&refused).contains("folder must be there"), "{}", everything(&refused));
    }
}

#[tokio::test]
async fn what_may_not_be_written_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = filled(&folder, 3).await;
    let before = fs::read(&path).unwrap();
    let open = |folder_mode, path: &Path, file_mode| {
        set_mode(folder.path(), folder_mode);
        set_mode(&file_in(&folder), file_mode);
        as_nobody(&format!("open {}", path.display()))
    };
    let new = folder.path().join("new.db");
    for said in [
        open(0o777, &path, 0o444),
        open(0o555, &path, 0o666),
        open(0o555, &path, 0o444),
        open(0o555, &new, 0o666),
    ] {
        assert!(said.starts_with("Unusable") && said.contains("writable"), "{said}");
    }
    assert_eq!(open(0o777, &path, 0o666), "opened", "a writable file can be used");
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = filled(&folder, 3).await;
    sql(&path, "UPDATE bezoar_meta SET value = 999 WHERE name = 'schema'");
    let before = fs::read(&path).unwrap();
    let refused = refusal(&path);
    assert_eq!(refused.kind, ErrorKind::Unusable);
    for part in ["schema 999", "newer program"] {
        assert!(everything(&refused).contains(part), "{}", everything(&refused));
    }
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[tokio::test]
async fn only_its_owner_can_read_the_database_and_its_log() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    send(&transport, &message("a", noise(10))).await.unwrap();
    for name in ["lab.db", "lab.db-wal", "lab.db-shm"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name} has mode {mode:o}");
    }
}

#[tokio::test]
async fn a_closed_database_is_one_file() {
    for _ in 0..20 {
        let folder = folder();
        let path = file_in(&folder);
        let transport = open_transport(Options::new(&path)).await;
        send(&transport, &message("a", noise(1))).await.unwrap();
        drop(transport);
        wait_until(|| !has_log(&path));
        let copy = folder.path().join("copy.db");
        fs::copy(path, &copy).unwrap();
        assert_eq!(everything_in(&copy).await, ["a"]);
    }
}

#[tokio::test]
async fn a_database_that_vanishes_or_is_exchanged_does_nothing_until_it_is_back() {
    let folder = folder();
    let path = filled(&folder, 1).await;
    let transport = open_transport(Options::new(&path)).await;
    let aside = folder.path().join("aside.db");
    fs::rename(&path, &aside).unwrap();
    let refused = send(&transport, &message("lost", noise(1))).await.expect_err("there is no file");
    assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
    let refused = transport.depth(&queue()).await.expect_err("the file is missing");
    assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
    run(Command::new("cp").arg(&aside).arg(&path)); // not copied by this process, because closing the file would release its locks
    let refused =
        send(&transport, &message("lost", noise(1))).await.expect_err("it is another file");
    assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
    let refused = transport
        .dead_letters(&queue(), DeadLetterPage::default())
        .await
        .expect_err("they are not its");
    assert_eq!(refused.kind, ErrorKind::Unusable, "{}", everything(&refused));
    fs::rename(&aside, &path).unwrap();
    send(&transport, &message("kept", noise(1))).await.unwrap();
    assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(2));
    drop(transport);
    assert_eq!(everything_in(&path).await, ["0", "kept"]);
}

fn refusal(path: &Path) -> TransportError {
    SqliteTransport::open(Options::new(path)).expect_err("it must not be opened")
}

async fn work_with(path: &Path) -> Result<(), TransportError> {
    let transport = SqliteTransport::open(Options::new(path))?;
    let subscription = transport.subscribe(&queue(), SubscribeOptions::default()).await?;
    subscription.receive(NonZeroU32::MAX, Duration::ZERO).await?;
    send(&transport, &message("one more", noise(1))).await
}

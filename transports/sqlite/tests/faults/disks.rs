//! Disks that are full or fail.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use bezoar_core::{DeadLetterAccess, DeadLetterIds, ErrorKind, QueueAdmin, Settlement};
use bezoar_sqlite::{Options, SqliteTransport};
use tempfile::TempDir;

use super::{child_process::Other, sql::sql, support::*};

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_and_keeps_what_was_accepted() {
    let Some(disk) = SmallDisk::mount("32m") else { return };
    let transport = open_transport(Options::new(disk.path().join("lab.db"))).await;
    let mut accepted = BTreeSet::new();
    for (cycle, room) in (0..).zip([300_000, 0, 1_000_000, 100_000]) {
        disk.fill_up_to(room);
        accepted.extend(accepted_until_full(&transport, cycle * 10_000).await);
        assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(accepted.len() as u64));
        disk.free();
        let afterwards = format!("after {room}");
        send(&transport, &message(&afterwards, noise(2_000))).await.unwrap();
        accepted.insert(afterwards);
    }
    let found = ids(&receive(&transport, 100_000).await).into_iter().collect();
    assert_eq!(differences(&accepted, &BTreeSet::new(), &found), [""; 0]);
}

#[tokio::test]
async fn a_store_of_a_given_size_refuses_more_and_lets_what_is_there_be_done() {
    let folder = folder();
    let options = Options { max_bytes: Some(1_000_000), ..Options::new(file_in(&folder)) };
    let transport = open_transport(options).await;
    let mut accepted = 0;
    let refused = loop {
        match send(&transport, &message(&format!("{accepted}"), noise(10_000))).await {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, ErrorKind::Full);
    assert!(everything(&refused).contains("raise the limit"), "{}", everything(&refused));
    assert!((40..100).contains(&accepted), "{accepted}");
    let held = receive(&transport, 1_000).await;
    assert_eq!(held.len(), accepted);
    let dead = |_| Settlement::DeadLetter { reason: reason(), tries: vec![failed_try()] };
    settle(&transport, held, dead).await;
    transport.discard(&queue(), &DeadLetterIds::All).await.unwrap();
    send(&transport, &message("again", noise(10_000))).await.unwrap();
}

/// Sends, twenty at a time, until forty were refused.
async fn accepted_until_full(transport: &SqliteTransport, first: u32) -> Vec<String> {
    let mut accepted = Vec::new();
    let mut refused = 0;
    for start in (first..first + 5_000).step_by(20) {
        if refused >= 40 {
            return accepted;
        }
        for (id, result) in send_at_once(transport, start..start + 20, 2_000).await {
            match result {
                Ok(()) => accepted.push(id),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Full, "{}", everything(&error));
                    assert!(error.to_string().contains("free some space"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    panic!("the disk did not fill up");
}

#[tokio::test]
async fn a_database_cannot_be_made_on_a_full_disk_and_can_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("16m") else { return };
    let mut refused = 0;
    for room in (0..40).map(|pages| pages * 4 * 4096) {
        let options = Options::new(disk.path().join(format!("{room}.db")));
        disk.fill_up_to(room);
        if let Err(error) = SqliteTransport::open(options.clone()) {
            assert_eq!(error.kind, ErrorKind::Full, "{room}: {}", everything(&error));
            refused += 1;
        }
        disk.free();
        send(&open_transport(options).await, &message("a", noise(1))).await.unwrap();
    }
    assert!((5..35).contains(&refused), "{refused} of 40 were refused");
}

/// The system refuses writes above a file size, which is another I/O error than a full disk.
#[tokio::test]
async fn after_an_io_error_the_accepted_is_there_and_work_goes_on() {
    let folder = folder();
    drop(open_transport(Options::new(file_in(&folder))).await);
    let mut other = Other::start_limited(&format!("fill {}", file_in(&folder).display()));
    let told = other.told_until("refused");
    other.lift_limit();
    let told = [told, other.told_until("done")].concat();
    other.end();
    let of = |word: &str| -> BTreeSet<String> {
        told.iter().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect()
    };
    let (accepted, unknown) = (of("accepted "), of("unknown "));
    assert!(accepted.contains("afterwards") && accepted.len() > 1, "{told:?}");
    let found = everything_in(&file_in(&folder)).await.into_iter().collect();
    assert_eq!(differences(&accepted, &unknown, &found), [""; 0]);
}

/// The negative control of the tests above.
#[tokio::test]
async fn a_message_that_is_lost_or_made_up_is_noticed() {
    let folder = folder();
    let path = filled(&folder, 3).await;
    sql(&path, "DELETE FROM bezoar_waiting WHERE seq = 2");
    let promised: BTreeSet<_> = ["0", "1"].map(str::to_owned).into();
    let found = everything_in(&path).await.into_iter().collect();
    assert_eq!(differences(&promised, &BTreeSet::new(), &found), ["lost: 1", "made up: 2"]);
}

/// Lists accepted messages that are missing, and messages that cannot have been accepted.
fn differences(
    accepted: &BTreeSet<String>,
    unknown: &BTreeSet<String>,
    found: &BTreeSet<String>,
) -> Vec<String> {
    let possible = accepted | unknown;
    let lost = accepted.difference(found).map(|id| format!("lost: {id}"));
    let made_up = found.difference(&possible).map(|id| format!("made up: {id}"));
    lost.chain(made_up).collect()
}

/// A separate disk, in memory.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None`, with a message, where this user must not mount a disk.
    fn mount(size: &str) -> Option<Self> {
        let folder = folder();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder.path());
        let output = mount.output();
        if output.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        let said = output.map(|it| String::from_utf8_lossy(&it.stderr).into_owned());
        skip(&format!("only who may mount a small disk can fill it: {said:?}"));
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn fill_up_to(&self, room_bytes: u64) {
        let mut filler = File::create(self.path().join("filler")).unwrap();
        while filler.write_all(&[1; 4096]).is_ok() {}
        let full = filler.metadata().unwrap().len();
        filler.set_len(full.saturating_sub(room_bytes)).unwrap();
    }

    fn free(&self) {
        // Emptied first, because a process that another test starts may keep the file open for a
        // moment.
        File::create(self.path().join("filler")).unwrap();
        fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the writer's thread may still be closing its files.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

#[expect(
    clippy::explicit_write,
    reason = "the output of `eprintln!` is hidden for tests that pass"
)]
fn skip(why: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {why}").unwrap();
}

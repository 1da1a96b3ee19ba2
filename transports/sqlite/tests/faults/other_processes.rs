//! Other processes that use the same file.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Barrier, Mutex},
    thread,
    time::{Duration, Instant},
};

use bezoar_core::{ErrorKind, QueueAdmin, Settlement};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{
    child_process::Other,
    send_and_handle::{MESSAGES_EACH, send_and_handle},
    sql::*,
    support::*,
};

#[tokio::test]
async fn a_locked_database_is_unavailable_for_a_while_and_nothing_is_lost() {
    let folder = folder();
    let options =
        Options { busy_timeout: Duration::from_millis(300), ..Options::new(file_in(&folder)) };
    let transport = open_transport(options.clone()).await;
    send(&transport, &message("before", noise(1))).await.unwrap();
    let lock = lock(&options.path);
    let start = Instant::now();
    let refused = send(&transport, &message("during", noise(1))).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{}", everything(&refused));
    assert!(refused.is_transient() && everything(&refused).contains("another process"));
    let refused = SqliteTransport::open(options.clone()).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{}", everything(&refused));
    let waited = start.elapsed(); // twice; the rest is tolerance for a busy machine
    assert!((600..6_000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(transport.depth(&queue()).await.unwrap().ready, Some(1), "reading needs no lock");
    lock.execute_batch("COMMIT").unwrap();
    send(&transport, &message("after", noise(1))).await.unwrap();
    drop(SqliteTransport::open(options).unwrap());
    assert_eq!(ids(&receive(&transport, 10).await), ["before", "after"]);
}

#[tokio::test]
async fn a_lock_keeps_many_waiting_no_longer_than_one() {
    let folder = folder();
    let timeout = Duration::from_millis(200);
    let options = Options { busy_timeout: timeout, ..Options::new(file_in(&folder)) };
    let transport = open_transport(options.clone()).await;
    let _lock = lock(&options.path);
    let start = Instant::now();
    for (_, result) in send_at_once(&transport, 0..30, 1).await {
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    }
    // One wait for the first job and one for all others together; the rest is tolerance for a busy
    // machine.
    assert!(start.elapsed() < timeout * 10, "{:?}", start.elapsed());
}

#[tokio::test]
async fn opening_waits_for_who_has_the_file_to_himself_and_not_for_ever() {
    let folder = folder();
    let path = filled(&folder, 1).await;
    let alone = connection(&path);
    let keep = "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; CREATE TABLE theirs (it); COMMIT";
    alone.execute_batch(keep).unwrap();
    let timeout = Duration::from_millis(400);
    let start = Instant::now();
    let options = Options { busy_timeout: timeout, ..Options::new(&path) };
    let refused = SqliteTransport::open(options).unwrap_err();
    let waited = start.elapsed();
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{}", everything(&refused));
    assert!((timeout..timeout * 5).contains(&waited), "{waited:?}"); // the rest is tolerance for a busy machine
    drop(alone);
    assert_eq!(everything_in(&path).await, ["0"]);
}

#[test]
fn all_who_open_a_new_database_at_once_succeed() {
    for _ in 0..10 {
        let folder = folder();
        let path = file_in(&folder);
        let start = Barrier::new(8);
        thread::scope(|scope| {
            let open = || {
                start.wait();
                SqliteTransport::open(Options::new(&path)).map(drop)
            };
            let all: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            for one in all {
                one.join().unwrap().unwrap();
            }
        });
    }
}

#[tokio::test]
async fn two_transports_on_one_file_handle_each_message_once() {
    let folder = folder();
    let options = Options { poll: Duration::from_millis(5), ..Options::new(file_in(&folder)) };
    let (one, other) =
        (open_transport(options.clone()).await, open_transport(options.clone()).await);
    let handled = Arc::new(Mutex::new(Vec::new()));
    let send_and_handle = |transport, name| {
        let (note, done) = (handled.clone(), handled.clone());
        send_and_handle(
            transport,
            name,
            move |id| note.lock().unwrap().push(id),
            move || done.lock().unwrap().len() >= 2 * MESSAGES_EACH,
        )
    };
    let both = async { tokio::join!(send_and_handle(one, "one"), send_and_handle(other, "other")) };
    tokio::time::timeout(PATIENCE, both).await.expect("some messages were not handled");
    check_all_handled_once(&options.path, &handled.lock().unwrap());
}

#[tokio::test]
async fn two_processes_on_one_file_handle_each_message_once() {
    let folder = folder();
    let options = Options { poll: Duration::from_millis(5), ..Options::new(file_in(&folder)) };
    let transport = open_transport(options.clone()).await;
    let mut other = Other::start(&format!("send_and_handle {}", options.path.display()));
    let handled = Arc::new(Mutex::new(Vec::new()));
    let heard = other.hear(handled.clone());
    let (note, done) = (handled.clone(), handled.clone());
    let send_and_handle = send_and_handle(
        transport,
        "one",
        move |id| note.lock().unwrap().push(id),
        move || done.lock().unwrap().len() >= 2 * MESSAGES_EACH,
    );
    tokio::time::timeout(PATIENCE, send_and_handle).await.expect("some messages were not handled");
    other.end();
    heard.join().unwrap();
    check_all_handled_once(&options.path, &handled.lock().unwrap());
}

/// The negative control of the two tests above.
#[test]
fn a_message_that_is_handled_twice_or_never_is_noticed() {
    let mut handled: Vec<_> = once_each().into_keys().collect();
    assert_eq!(times(&handled), once_each());
    handled.push("one-7".to_owned());
    assert_ne!(times(&handled), once_each());
    handled.retain(|id| id != "one-7");
    assert_ne!(times(&handled), once_each());
}

fn check_all_handled_once(path: &Path, handled: &[String]) {
    assert_eq!(times(handled), once_each());
    let dead = (2 * MESSAGES_EACH / 10) as u64;
    for (query, expected) in [
        ("SELECT waiting FROM bezoar_queues", 0),
        ("SELECT dead FROM bezoar_queues", dead),
        ("SELECT count(*) FROM bezoar_waiting", 0),
        ("SELECT count(*) FROM bezoar_dead", dead),
        ("SELECT count(*) FROM bezoar_messages", dead),
        ("SELECT count(*) FROM bezoar_attempts", dead),
    ] {
        assert_eq!(one(path, query), expected, "{query}");
    }
}

fn times(handled: &[String]) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    handled.iter().for_each(|id| *times.entry(id.clone()).or_default() += 1);
    times
}

fn once_each() -> BTreeMap<String, usize> {
    let of = |name| (0..MESSAGES_EACH).map(move |number| (format!("{name}-{number}"), 1));
    of("one").chain(of("other")).collect()
}

#[tokio::test]
async fn an_operator_reads_dead_letters_with_sqlite3_and_sees_nothing_personal() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    send(&transport, &sensitive("m-1")).await.unwrap();
    bury_with_canary(&transport).await;
    let shown = sqlite3(&file_in(&folder), "SELECT * FROM bezoar_dead_letters");
    for part in ["lab", "m-1", "retries exhausted"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains(CANARY), "the view shows sensitive data");
    let control = sqlite3(
        &file_in(&folder),
        "SELECT body, headers, detail FROM bezoar_messages NATURAL JOIN bezoar_attempts",
    );
    assert_eq!(
        control.matches(CANARY).count(),
        3,
        "the canary is not in the file, so its absence in the view proves nothing"
    );
}

async fn bury_with_canary(transport: &SqliteTransport) {
    let held = receive(transport, 1).await;
    settle(transport, held, |_| Settlement::DeadLetter {
        reason: reason(),
        tries: vec![failed_try()],
    })
    .await;
}

fn sqlite3(path: &Path, query: &str) -> String {
    String::from_utf8(run(Command::new("sqlite3").arg(path).arg(query)).stdout).unwrap()
}

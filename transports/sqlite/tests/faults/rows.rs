//! Malformed rows.

use std::{num::NonZeroU32, path::Path, time::Duration};

use bezoar_core::{Body, DeadLetterAccess, DeadLetterIds, Ledger, QueueAdmin, Settlement};
use bezoar_sqlite::Options;

use super::{sql::*, support::*};

/// Values of id, type and headers that are not a valid message.
const MALFORMED: [(&str, &str, &str); 8] = [
    ("'m'", "'t'", "'not json'"),
    ("'m'", "'t'", "'{\"a\": 1}'"),
    ("'m'", "'t'", "'[]'"),
    ("'m'", "'t'", "''"),
    ("''", "'t'", "NULL"),
    ("CAST(x'ff' AS TEXT)", "'t'", "NULL"),
    ("'m' || char(7)", "'t'", "NULL"),
    ("'m'", "''", "NULL"),
];

#[tokio::test]
async fn malformed_rows_are_set_aside_with_their_bytes_and_do_not_stop_their_neighbours() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    for (number, columns) in MALFORMED.iter().enumerate() {
        send(&transport, &message(&format!("good-{number}"), noise(9))).await.unwrap();
        insert_by_hand(&file_in(&folder), columns, number);
    }
    let good: Vec<_> = (0..MALFORMED.len()).map(|number| format!("good-{number}")).collect();
    assert_eq!(ids(&receive(&transport, 100).await), good);
    let dead = dead_letters(&transport).await;
    let bodies: Vec<_> = dead.iter().map(|dead| dead.message.body.clone()).collect();
    let expected: Vec<_> =
        (0..MALFORMED.len()).map(|number| Body::from(noise(50 + number))).collect();
    assert_eq!(bodies, expected);
    for dead in &dead {
        assert_eq!(dead.reason.to_string(), "Failed to deserialize message");
    }
    let leased = Some(MALFORMED.len() as u64);
    let depth = transport.depth(&queue()).await.unwrap();
    assert_eq!((depth.ready, depth.delayed), (Some(0), Some(0)));
    assert_eq!((depth.leased, depth.dead), (leased, leased));
    assert_eq!((depth.oldest_ready, depth.oldest_dead), (None, Some(dead[0].at)));
}

#[tokio::test]
async fn a_good_message_behind_malformed_ones_comes_without_delay() {
    let folder = folder();
    // The next poll is an hour later: a receive that wrongly finds nothing would time out.
    let options = Options { poll: Duration::from_secs(3600), ..Options::new(file_in(&folder)) };
    let transport = open_transport(options).await;
    for (number, columns) in MALFORMED.iter().enumerate() {
        insert_by_hand(&file_in(&folder), columns, number);
    }
    send(&transport, &message("good", noise(1))).await.unwrap();
    let wait = Duration::from_secs(5);
    let received = subscription(&transport).await.receive(NonZeroU32::MIN, wait).await.unwrap();
    assert_eq!(ids(&received), ["good"]);
}

#[tokio::test]
async fn a_ledger_at_its_limits_does_not_stop_the_queue() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    let mut worn = message("worn", noise(1));
    worn.ledger = Ledger::restored(u32::MAX, u32::MAX, u32::MAX, u32::MAX, Vec::new());
    send(&transport, &worn).await.unwrap();
    for _ in 0..2 {
        let held = receive(&transport, 1).await;
        settle(&transport, held, |_| Settlement::Release { after: Duration::ZERO }).await;
    }
    let held = receive(&transport, 1).await;
    settle(&transport, held, |_| Settlement::DeadLetter {
        reason: reason(),
        tries: vec![failed_try()],
    })
    .await;
    assert_eq!(transport.replay(&queue(), &DeadLetterIds::All).await.unwrap(), 1);
    assert_eq!(receive_one(&transport).await.ledger.replayed, u32::MAX);
}

#[tokio::test]
async fn a_damaged_history_does_not_stop_the_queue() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    for name in ["damaged", "good"] {
        send(&transport, &message(name, noise(1))).await.unwrap();
    }
    let retry = |_: usize| Settlement::Retry { after: Duration::ZERO, tries: vec![failed_try()] };
    let held = receive(&transport, 2).await;
    settle(&transport, held, retry).await;
    sql(
        &file_in(&folder),
        "UPDATE bezoar_attempts SET number = -1, code = CAST(x'ff' AS TEXT),
                kind = CAST(x'ff' AS TEXT), detail = CAST(x'ff' AS TEXT)
         WHERE seq = (SELECT min(seq) FROM bezoar_attempts)",
    );
    let received = subscription(&transport).await.receive(NonZeroU32::MAX, Duration::ZERO).await;
    assert_eq!(ids(&received.unwrap()), ["damaged", "good"]);
}

#[tokio::test]
async fn a_history_without_counts_is_kept_and_goes_with_its_message() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    let mut odd = message("odd", noise(1));
    odd.ledger = Ledger::restored(0, 0, 0, 0, vec![failed_try(), failed_try()]); // two tries with the same numbers
    send(&transport, &odd).await.unwrap();
    for tries in 2..4 {
        let held = receive(&transport, 1).await;
        assert_eq!(held[0].message.ledger.history().len(), tries);
        let retry = || Settlement::Retry { after: Duration::ZERO, tries: vec![failed_try()] };
        settle(&transport, held, |_| retry()).await;
    }
    let held = receive(&transport, 1).await;
    settle(&transport, held, |_| Settlement::Complete).await;
    assert_eq!(one(&file_in(&folder), "SELECT count(*) FROM bezoar_attempts"), 0);
}

#[tokio::test]
async fn what_is_left_of_a_message_never_becomes_part_of_another() {
    let folder = folder();
    let path = file_in(&folder);
    let transport = open_transport(Options::new(&path)).await;
    for number in 0..3 {
        send(&transport, &message("m", noise(1))).await.unwrap();
        let held = receive(&transport, 1).await;
        settle(&transport, held, |_| Settlement::Retry {
            after: Duration::ZERO,
            tries: vec![failed_try()],
        })
        .await;
        let held = receive(&transport, 1).await;
        assert_eq!(held[0].message.ledger.history().len(), 1, "its own");
        settle(&transport, held, |_| Settlement::Complete).await;
        assert_eq!(one(&path, "SELECT count(*) FROM bezoar_attempts"), number, "but what we left");
        sql(
            &path,
            "INSERT INTO bezoar_attempts SELECT seq, 1, 0, 1, 1, 0, 0, 'transient', 'x', 'left'
             FROM sqlite_sequence WHERE name = 'bezoar_messages'",
        );
    }
}

#[tokio::test]
async fn counters_that_are_off_count_nothing_below_none() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    send(&transport, &message("m", noise(1))).await.unwrap();
    let _held = receive(&transport, 1).await;
    sql(&file_in(&folder), "UPDATE bezoar_queues SET waiting = -5, dead = -7");
    let depth = transport.depth(&queue()).await.unwrap();
    assert_eq!((depth.ready, depth.leased, depth.dead), (Some(0), Some(1), Some(0)));
}

/// Inserts a message as somebody would who knows the tables but not the rules.
fn insert_by_hand(path: &Path, (id, message_type, headers): &(&str, &str, &str), number: usize) {
    let body: String = noise(50 + number).iter().map(|byte| format!("{byte:02x}")).collect();
    sql(
        path,
        &format!(
            "BEGIN IMMEDIATE;
             INSERT INTO bezoar_messages (id, type, headers, time, body)
             VALUES ({id}, {message_type}, {headers}, 0, x'{body}');
             INSERT INTO bezoar_waiting (queue, visible_at, seq, acquired, failed, released, replayed)
             SELECT id, 1000, last_insert_rowid(), 0, 0, 0, 0 FROM bezoar_queues;
             UPDATE bezoar_queues SET waiting = waiting + 1;
             COMMIT"
        ),
    );
}

//! Messages that were damaged on disk: they are never delivered, and never shown as intact.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    num::NonZeroU32,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use bezoar_core::{
    DeadLetter, DeadLetterAccess, DeadLetterIds, Message, QueueAdmin, Reason, Settlement,
    SubscribeOptions, Transport, TransportError,
};
use bezoar_sqlite::{Options, SqliteTransport};
use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{sql::*, support::*};

/// Statements that each change one stored field of the message `damaged`.
const DAMAGE: [&str; 11] = [
    "body = CAST('X' || substr(body, 2) AS BLOB)",
    "body = x''",
    "headers = '{\"name\":\"other\"}'",
    "type = 'lab.other'",
    "id = 'other'",
    "time = time + 1",
    "correlation_id = 'other'",
    "causation_id = 'other'",
    "content_type = 'text/other'",
    "expires_at = 99999999999999",
    "ordering_key = 'other'",
];

#[tokio::test]
async fn a_damaged_message_becomes_a_dead_letter_and_its_neighbours_are_delivered() {
    for damage in DAMAGE {
        let folder = folder();
        let transport = open_transport(Options::new(file_in(&folder))).await;
        for name in ["before", "damaged", "after"] {
            send(&transport, &sensitive(name)).await.unwrap();
        }
        damage_message(&file_in(&folder), damage);
        assert_eq!(ids(&receive(&transport, 9).await), ["before", "after"], "{damage}");
        let dead = dead_letters(&transport).await;
        assert_eq!(dead.len(), 1, "{damage}");
        assert_eq!(dead[0].reason, Reason::damaged(), "{damage}");
        let depth = transport.depth(&queue()).await.unwrap();
        assert_eq!((depth.leased, depth.dead), (Some(2), Some(1)), "{damage}");
    }
}

#[tokio::test]
async fn a_message_stored_before_there_were_checksums_is_delivered_as_it_is() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    send(&transport, &sensitive("damaged")).await.unwrap();
    damage_message(&file_in(&folder), "checksum = NULL, body = CAST('as it is' AS BLOB)");
    assert_eq!(receive_one(&transport).await.body.reveal()[..], b"as it is"[..]);
}

#[tokio::test]
async fn a_dead_letter_that_was_damaged_since_says_so_and_is_not_delivered_when_replayed() {
    let folder = folder();
    let transport = open_transport(Options::new(file_in(&folder))).await;
    send(&transport, &sensitive("damaged")).await.unwrap();
    let held = receive(&transport, 1).await;
    let dead = |_| Settlement::DeadLetter { reason: reason(), tries: vec![failed_try()] };
    settle(&transport, held, dead).await;
    assert_eq!(dead_letters(&transport).await[0].reason, reason(), "the letter is not damaged yet");
    damage_message(&file_in(&folder), DAMAGE[0]);
    let [DeadLetter { reason: shown, .. }] = &dead_letters(&transport).await[..] else { panic!() };
    assert_eq!(*shown.code(), Reason::DAMAGED);
    assert!(shown.to_string().contains("retries exhausted"), "{shown}");
    assert_eq!(transport.replay(&queue(), &DeadLetterIds::All).await.unwrap(), 1);
    assert_eq!(ids(&receive(&transport, 9).await), [""; 0]);
    assert_eq!(dead_letters(&transport).await[0].reason, Reason::damaged());
}

/// Flips bits anywhere in the file. Every message that is still delivered must be as it was sent.
#[tokio::test]
async fn no_damage_to_the_file_changes_a_message_that_is_delivered() {
    const FILES: u64 = 80;
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let folder = folder();
    let (whole, sent) = file_full_of_messages(&folder.path().join("whole.db")).await;
    let (mut delivered, mut damaged, mut refused) = (0, 0, 0);
    for number in 0..FILES {
        let path = folder.path().join(format!("{number}.db"));
        fs::write(&path, &whole).unwrap();
        flip_bytes(&path, whole.len(), &mut StdRng::seed_from_u64(seed + number));
        match all_of(&path).await {
            Ok((received, dead)) => {
                for message in &received {
                    let expected = &sent[message.id.as_str()];
                    assert!(message.body.reveal() == expected, "file {number}: a wrong body");
                    assert_eq!(message.headers.len(), 1, "file {number}: other headers");
                }
                (delivered, damaged) = (delivered + received.len(), damaged + dead);
            }
            Err(_) => refused += 1, // SQLite noticed
        }
    }
    println!("{delivered} delivered, {damaged} damaged, {refused} of {FILES} files refused");
    assert!(damaged > 5 && delivered > 1_000, "there was too little damage for a meaningful test");
}

/// The bytes of a closed database, and the bodies of its messages by id.
async fn file_full_of_messages(path: &Path) -> (Vec<u8>, HashMap<String, Bytes>) {
    let transport = open_transport(Options::new(path)).await;
    let bodies: HashMap<_, _> =
        (0..60).map(|number| (format!("m-{number}"), noise(100 + 150 * number))).collect();
    for (name, body) in &bodies {
        let message = message(name, body.clone()).with_header("name", "value");
        send(&transport, &message).await.unwrap();
    }
    drop(transport);
    wait_until_closed(path);
    (fs::read(path).unwrap(), bodies)
}

fn flip_bytes(path: &Path, length: usize, random: &mut StdRng) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    for _ in 0..random.random_range(1..=3) {
        let at = random.random_range(4096..length as u64); // not the header, where damage is always noticed
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ random.random_range(1..=255u8)], at).unwrap();
    }
}

/// All messages that are delivered, and how many became dead letters because they are damaged.
async fn all_of(path: &Path) -> Result<(Vec<Message>, usize), TransportError> {
    let transport = SqliteTransport::open(Options::new(path))?;
    let subscription = transport.subscribe(&queue(), SubscribeOptions::default()).await?;
    let max = NonZeroU32::new(1_000).unwrap();
    let received = subscription.receive(max, Duration::ZERO).await?;
    let dead = transport.dead_letters(&queue(), bezoar_core::DeadLetterPage::default()).await?;
    let damaged = dead.iter().filter(|dead| *dead.reason.code() == Reason::DAMAGED).count();
    Ok((received.into_iter().map(|held| (*held.message).clone()).collect(), damaged))
}

fn damage_message(path: &Path, change: &str) {
    sql(path, &format!("UPDATE bezoar_messages SET {change} WHERE id = 'damaged'"));
}

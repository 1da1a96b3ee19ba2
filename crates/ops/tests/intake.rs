//! Takes in dead letters without a lasting id, with crashes between any two steps: no letter is lost, and none is in
//! the catalogue twice without a mark.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;

use bezoar_core::{
    DeadLetter, DeadLetterId, Message, MessageId, MessageType, QueueName, Reason, Recognition,
    catalogue::{BrokerIntake as _, DeadLetterCatalogue as _, Filter, ListRequest},
    millis,
};
use bezoar_sqlite::{Options, SqliteTransport, Synchronous};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The number of letters with each of two contents.
const LETTERS: usize = 4;

/// Steps that are left out on purpose, to prove that the check notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// The session does not announce to the catalogue that letters are about to be removed.
    RemovesUnannounced,
    /// The broker's flag is ignored.
    NothingIsRedelivered,
}

/// A broker's dead-letter queue: contents, and whether each was delivered before.
struct Broker {
    waiting: VecDeque<(u8, bool)>,
    last_id: i64,
}

impl Broker {
    fn new(random: &mut StdRng) -> Self {
        let mut waiting: VecDeque<_> =
            (0..2 * LETTERS).map(|number| ((number % 2) as u8, false)).collect();
        waiting.rotate_left(random.random_range(0..2));
        Self { waiting, last_id: 0 }
    }

    /// Delivers some to a new session.
    fn deliver(&mut self, count: usize) -> Vec<(u8, bool)> {
        self.waiting.drain(..count.min(self.waiting.len())).collect()
    }

    /// Ends the session: letters that were not acknowledged will be delivered again.
    fn requeue(&mut self, unacknowledged: &[(u8, bool)]) {
        unacknowledged
            .iter()
            .rev()
            .for_each(|(content, _)| self.waiting.push_front((*content, true)));
    }

    fn letter(&mut self, (content, redelivered): (u8, bool), session: u64) -> DeadLetter {
        self.last_id += 1;
        let id = MessageId::new(format!("m-{content}")).unwrap();
        let kind = MessageType::new("lab.result").unwrap();
        DeadLetter {
            id: DeadLetterId::from_number(self.last_id),
            queue: queue(),
            message: Message::new(id, kind, millis(0), "body"),
            reason: Reason::new(Reason::EXHAUSTED, "retries exhausted"),
            at: millis(0),
            recognition: Recognition::Content { session, redelivered },
        }
    }
}

fn queue() -> QueueName {
    QueueName::new("hospital/results").unwrap()
}

/// One session: letters are taken in, announced as about to be removed, and removed; it may end after each step.
async fn session(
    store: &SqliteTransport,
    broker: &mut Broker,
    random: &mut StdRng,
    defect: Defect,
) {
    let delivered = broker.deliver(random.random_range(1..5));
    // The others are prefetched but not handed out.
    let handed_out = random.random_range(1..=delivered.len());
    let number = random.random();
    let letters: Vec<_> = delivered[..handed_out]
        .iter()
        .map(|&(content, redelivered)| {
            let redelivered = redelivered && defect != Defect::NothingIsRedelivered;
            broker.letter((content, redelivered), number)
        })
        .collect();
    let ids: Vec<_> = letters.iter().map(|letter| letter.id).collect();
    let crash_at = random.random_range(0..4);
    store.take_in(&queue(), letters).await.unwrap();
    if crash_at == 0 {
        return broker.requeue(&delivered);
    }
    if defect != Defect::RemovesUnannounced {
        store.removing(&queue(), &ids).await.unwrap();
    }
    if crash_at == 1 {
        return broker.requeue(&delivered);
    }
    broker.requeue(&delivered[handed_out..]);
}

/// Runs one random sequence; an error says what is wrong at the end.
async fn run(seed: u64, defect: Defect) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new(folder.path().join("lab.db"));
    let store =
        SqliteTransport::open(Options { synchronous: Synchronous::Normal, ..options }).unwrap();
    let mut broker = Broker::new(&mut random);
    while !broker.waiting.is_empty() {
        session(&store, &mut broker, &mut random, defect).await;
    }
    let all = ListRequest { after: None, limit: 1_000 };
    let found = store.list(&Filter::default(), &all).await.unwrap();
    for content in ["m-0", "m-1"] {
        let of = || found.iter().filter(|it| it.message_id.as_str() == content);
        let (total, marked) =
            (of().count(), of().filter(|it| it.possible_copy_of.is_some()).count());
        if total < LETTERS {
            return Err(format!("seed {seed}: {} of {content} are lost", LETTERS - total));
        }
        if total - marked > LETTERS {
            return Err(format!("seed {seed}: {content} is in the catalogue twice without a mark"));
        }
    }
    Ok(())
}

async fn first_problem(defect: Defect) -> Option<String> {
    let start: u64 = rand::rng().random_range(0..1 << 32);
    for seed in start..start + 150 {
        if let Err(problem) = run(seed, defect).await {
            return Some(problem);
        }
    }
    None
}

#[tokio::test]
async fn no_crash_loses_a_letter_or_doubles_it_unmarked() {
    assert_eq!(first_problem(Defect::None).await, None);
}

#[tokio::test]
async fn letters_that_are_lost_or_doubled_are_noticed() {
    let lost = first_problem(Defect::RemovesUnannounced).await.unwrap();
    assert!(lost.contains("lost"), "{lost}");
    let twice = first_problem(Defect::NothingIsRedelivered).await.unwrap();
    assert!(twice.contains("twice"), "{twice}");
}

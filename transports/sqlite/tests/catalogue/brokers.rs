//! Dead letters that are taken in from a broker, and what is replayed to it.

use std::time::Duration;

use bezoar_core::{
    CorrelationId, DeadLetter, DeadLetterAccess, DeadLetterId, DeadLetterIds, FailureKind, Message,
    MessageId, Reason, Settlement,
    catalogue::{
        Filter, ItemState, OperationId, OperationKind, OperationState, RejectionFilter, ReplayIds,
    },
    millis,
};

use super::{census, ward::*};

const RESULTS: &str = "hospital/results";

/// A dead letter as a broker has it, with one failed attempt.
fn letter(id: i64, mut message: Message) -> DeadLetter {
    message.ledger.fail(vec![failed_try(FailureKind::Transient, "boom", "boom")]);
    let id = DeadLetterId(id);
    DeadLetter { id, queue: queue(RESULTS), message, reason: reason(), at: millis(5) }
}

async fn take_in(ward: &Ward, letters: Vec<DeadLetter>) -> u64 {
    ward.store.take_in(&queue(RESULTS), letters).await.unwrap()
}

/// Gives the broker everything that waits for it.
async fn replay_letters(ward: &Ward) -> Vec<Message> {
    let held = ward.receive(RESULTS, 100).await;
    let messages = held.iter().map(|held| (*held.message).clone()).collect();
    ward.settle(RESULTS, held, &Settlement::Complete).await;
    messages
}

async fn counts(ward: &Ward, id: OperationId) -> (u64, u64, u64) {
    let now = ward.operation(id).await;
    (now.in_flight(), now.completed, now.failed)
}

#[tokio::test]
async fn a_letter_is_taken_in_once_with_its_message_reason_and_history() {
    let ward = Ward::new().await;
    let letters = || vec![letter(7, message("a")), letter(8, message("a"))];
    assert_eq!(take_in(&ward, letters()).await, 2, "ids of messages may repeat");
    assert_eq!(take_in(&ward, letters()).await, 0, "and those of letters do not");
    let other = vec![letter(7, message("other"))];
    assert_eq!(take_in(&ward, other).await, 1, "but one that is another is not passed over");
    ward.store
        .discard(&queue(RESULTS), &DeadLetterIds::Ids(vec![ward.latest().await.id]))
        .await
        .unwrap();
    let entry = ward.latest().await;
    assert_eq!((entry.queue.as_str(), entry.attempts), (RESULTS, 1));
    let record = ward.store.record(entry.id).await.unwrap();
    assert_eq!(record.message, letter(7, message("a")).message);
    assert_eq!(record.reason, reason());
    census::check(&ward);
}

#[tokio::test]
async fn what_was_taken_in_long_ago_is_forgotten() {
    let ward = Ward::new().await;
    take_in(&ward, vec![letter(7, message("a"))]).await;
    ward.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
    take_in(&ward, vec![letter(8, message("b"))]).await;
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_taken"), 1);
}

#[tokio::test]
async fn a_replay_is_done_when_the_broker_says_so_and_not_when_it_has_the_message() {
    let ward = Ward::new().await;
    take_in(&ward, vec![letter(1, message("a")), letter(2, message("b"))]).await;
    let id = ward.run(replay(), everything()).await.id;
    let given = replay_letters(&ward).await;
    assert!(given.iter().all(|it| it.ledger.replay == Some(id) && it.ledger.replayed == 1));
    assert_eq!(counts(&ward, id).await, (2, 0, 0), "on the broker, and nothing is known");
    let done = |message: &Message| vec![(id, message.id.clone())];
    ward.store.completed(done(&given[0])).await.unwrap();
    ward.store.completed(done(&given[0])).await.unwrap();
    assert_eq!(counts(&ward, id).await, (1, 1, 0), "said twice, counted once");
    assert_eq!(take_in(&ward, vec![letter(3, given[1].clone())]).await, 1);
    assert_eq!(counts(&ward, id).await, (0, 1, 1));
    assert_eq!(ward.operation(id).await.state, OperationState::Ended);
    let again = ward.latest().await;
    let failed = ItemState::Failed { again: again.id, cause: again.cause.clone() };
    assert!(ward.items(id).await.iter().any(|item| item.state == failed));
    assert_eq!(ward.list(&Filter::default()).await.len(), 1);
    census::check(&ward);
}

#[tokio::test]
async fn outcomes_find_messages_under_new_ids_and_pass_over_strangers() {
    let ward = Ward::new().await;
    take_in(&ward, vec![letter(1, message("a"))]).await;
    let renamed = OperationKind::Replay {
        canary: 0,
        per_second: None,
        stop_after: None,
        ids: ReplayIds::New,
    };
    let id = ward.run(renamed, everything()).await.id;
    let given = replay_letters(&ward).await.remove(0);
    assert_ne!(given.id.as_str(), "a");
    let strangers = vec![(id, message("a").id), (OperationId(99), given.id.clone())];
    ward.store.completed(strangers).await.unwrap();
    assert_eq!(counts(&ward, id).await, (1, 0, 0));
    ward.store.completed(vec![(id, given.id)]).await.unwrap();
    assert_eq!(counts(&ward, id).await, (0, 1, 0));
}

#[tokio::test]
async fn one_that_cannot_be_given_back_fails_here() {
    let ward = Ward::new().await;
    take_in(&ward, vec![letter(1, message("a"))]).await;
    let id = ward.run(replay(), everything()).await.id;
    ward.settle_all(RESULTS, &dead("no exchange")).await;
    assert_eq!(counts(&ward, id).await, (0, 0, 1));
    census::check(&ward);
}

#[tokio::test]
async fn a_queue_that_is_not_a_brokers_is_as_it_was() {
    let ward = Ward::new().await;
    ward.store.adopt(&queue(RESULTS)).await.unwrap();
    ward.store.adopt(&queue(RESULTS)).await.unwrap();
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(counts(&ward, id).await, (0, 1, 0));
}

#[tokio::test]
async fn a_rejected_letter_has_the_reason_and_the_tries_that_were_announced() {
    let ward = Ward::new().await;
    let rejected = |id: i64, message: Message| {
        let reason = Reason::new(Reason::REJECTED, "set aside by the broker");
        DeadLetter { id: DeadLetterId(id), queue: queue(RESULTS), message, reason, at: millis(5) }
    };
    let told = letter(0, message("a")).message;
    ward.store.announce(&queue(RESULTS), vec![(told.clone(), reason())]).await.unwrap();
    take_in(&ward, vec![rejected(1, message("b")), rejected(2, message("a"))]).await;
    let entries = ward.list(&Filter::default()).await;
    let of_a = ward.store.record(entries[0].id).await.unwrap();
    assert_eq!((of_a.message, of_a.reason), (told, reason()));
    let of_b = ward.store.record(entries[1].id).await.unwrap();
    assert_eq!(of_b.reason.code(), &Reason::REJECTED, "nobody had said anything of it");
    take_in(&ward, vec![rejected(3, message("a"))]).await;
    assert_eq!(ward.latest().await.attempts, 0, "it is said once");
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_messages"), 3);
    census::check(&ward);
}

#[tokio::test]
async fn what_was_announced_is_found_by_message_and_correlation_until_it_is_taken_in() {
    let ward = Ward::new().await;
    let mut told = letter(0, message("a")).message;
    told.correlation_id = Some(CorrelationId::new("c-7").unwrap());
    ward.store.announce(&queue(RESULTS), vec![(told.clone(), reason())]).await.unwrap();
    let found = async |filter: RejectionFilter| ward.store.rejections(&filter, 10).await.unwrap();
    let by_id = |id: &str| RejectionFilter {
        message_id: Some(MessageId::new(id).unwrap()),
        ..RejectionFilter::default()
    };
    let by_correlation = |id: &str| RejectionFilter {
        correlation_id: Some(CorrelationId::new(id).unwrap()),
        ..RejectionFilter::default()
    };
    let of_queue = |name: &str| RejectionFilter {
        queues: Some(vec![queue(name)]),
        ..RejectionFilter::default()
    };
    let [it] = &found(by_id(told.id.as_str())).await[..] else { panic!("it is there") };
    assert_eq!((&it.reason, &it.ledger), (&reason(), &told.ledger));
    assert_eq!((&it.message_type, &it.correlation_id), (&told.message_type, &told.correlation_id));
    assert_eq!(found(by_correlation("c-7")).await.len(), 1);
    assert_eq!(found(of_queue(RESULTS)).await.len(), 1);
    for none in [by_id("another"), by_correlation("c-8"), of_queue("another")] {
        assert_eq!(found(none).await, []);
    }
    ward.clock.advance(Duration::from_secs(31 * 86_400));
    assert_eq!(found(by_id(told.id.as_str())).await, [], "for 30 days");
}

#[tokio::test]
async fn what_was_announced_and_never_came_is_forgotten() {
    let ward = Ward::new().await;
    let told = letter(0, message("a")).message;
    ward.store.announce(&queue(RESULTS), vec![(told, reason())]).await.unwrap();
    ward.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
    take_in(&ward, Vec::new()).await;
    for table in ["bezoar_announced", "bezoar_messages", "bezoar_attempts"] {
        assert_eq!(ward.one(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
}

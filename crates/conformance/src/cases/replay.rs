//! The selected dead letters are replayed or discarded, each once.

use std::time::Duration;

use bezoar_core::{DeadLetter, DeadLetterId, DeadLetterIds};

use crate::{
    case::Case,
    samples::{
        assert_as_sent, dead_letter, failed_try, full_message, ids, message, messages, retry,
    },
};

fn these<'a>(dead: impl IntoIterator<Item = &'a DeadLetter>) -> DeadLetterIds {
    DeadLetterIds::Ids(dead.into_iter().map(|dead| dead.id).collect())
}

pub(crate) async fn replayed_messages_are_delivered_once(case: Case) {
    case.kill(20).await;
    assert_eq!(case.replay(DeadLetterIds::All).await, 20, "replay returns how many");
    assert!(case.dead().await.is_empty(), "a replayed message is no longer a dead letter");
    let worker = case.worker().await;
    assert_eq!(ids(&worker.consume(20).await), ids(&messages(20)), "each is delivered once");
    worker.none("each is delivered once").await;
}

pub(crate) async fn only_the_chosen_are_replayed(case: Case) {
    let dead = case.kill(5).await;
    assert_eq!(case.replay(these([&dead[3], &dead[1]])).await, 2, "replay returns how many");
    assert_eq!(
        case.replay(DeadLetterIds::Ids(Vec::new())).await,
        0,
        "an empty selection replays nothing"
    );
    let replayed = case.worker().await.consume_all().await;
    assert_eq!(
        ids(&replayed),
        ids([&dead[1].message, &dead[3].message]),
        "only the selected are replayed"
    );
    let left: Vec<_> = case.dead().await.iter().map(|dead| dead.id).collect();
    assert_eq!(left, [dead[0].id, dead[2].id, dead[4].id], "the others stay as they are");
}

pub(crate) async fn a_second_replay_finds_nothing(case: Case) {
    let dead = case.kill(3).await;
    assert_eq!(case.replay(these(&dead)).await, 3);
    assert_eq!(case.replay(these(&dead)).await, 0, "a message is replayed once");
    assert_eq!(case.replay(DeadLetterIds::All).await, 0, "a message is replayed once");
    assert_eq!(case.worker().await.consume_all().await.len(), 3, "each is delivered once");
}

pub(crate) async fn unknown_ids_are_ignored(case: Case) {
    let dead = case.kill(1).await;
    let ids = [
        DeadLetterId::from_number(i64::MIN),
        DeadLetterId::from_number(-1),
        dead[0].id,
        DeadLetterId::from_number(i64::MAX),
    ];
    assert_eq!(
        case.replay(DeadLetterIds::Ids(ids.to_vec())).await,
        1,
        "only existing letters count"
    );
}

pub(crate) async fn an_id_named_twice_is_replayed_once(case: Case) {
    let dead = case.kill(1).await;
    assert_eq!(case.replay(these([&dead[0], &dead[0]])).await, 1, "a message is replayed once");
    assert_eq!(case.worker().await.consume_all().await.len(), 1, "each is delivered once");
}

pub(crate) async fn the_ids_of_another_queue_are_ignored(case: Case) {
    let (dead, other) = (case.kill(2).await, case.other_queue().await);
    for ids in [these(&dead), DeadLetterIds::All] {
        let replayed = case.replay_of(&other, &ids).await;
        assert_eq!(
            replayed.expect("the request is not an error"),
            0,
            "letters of another queue are not replayed"
        );
        let discarded = case.discard_of(&other, &ids).await;
        assert_eq!(
            discarded.expect("the request is not an error"),
            0,
            "letters of another queue are not discarded"
        );
    }
    assert_eq!(case.dead().await, dead, "each queue has its own dead letters");
}

pub(crate) async fn hundreds_are_replayed_by_their_ids(case: Case) {
    let dead = case.kill(300).await;
    assert_eq!(case.replay(these(&dead[..299])).await, 299, "a selection may be long");
    case.worker().await.consume(299).await;
    assert_eq!(case.dead().await, dead[299..], "only the selected are replayed");
}

pub(crate) async fn a_replayed_message_is_a_new_generation(case: Case) {
    case.send(message("m")).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, retry(Duration::ZERO)).await;
    worker.settle(worker.one().await, dead_letter()).await;
    let past = case.dead().await.remove(0).message.ledger;
    case.replay(DeadLetterIds::All).await;
    let delivery = worker.one().await;
    let ledger = &delivery.message.ledger;
    assert_eq!((ledger.failed, ledger.released), (0, 0), "a new generation starts at 0");
    assert_eq!(ledger.replayed, 1, "the replay is counted");
    assert_eq!(ledger.history(), past.history(), "the history stays");
    if case.counts_exactly() {
        assert_eq!(ledger.acquired, 1, "acquisitions start at 0 again");
        assert!(!delivery.redelivered, "no handler ran in this generation before");
    }
}

pub(crate) async fn a_replayed_message_can_die_again(case: Case) {
    let first = case.kill(1).await.remove(0);
    case.replay(DeadLetterIds::All).await;
    let worker = case.worker().await;
    worker.settle(worker.one().await, dead_letter()).await;
    let second = case.dead().await.remove(0);
    assert_ne!(first.id, second.id, "it is a different dead letter");
    let places: Vec<_> =
        second.message.ledger.history().iter().map(|it| (it.generation, it.attempt)).collect();
    assert_eq!(places, [(0, 1), (1, 1)], "each attempt is remembered with its generation");
    assert_eq!(case.replay(DeadLetterIds::All).await, 1, "it can be replayed again");
    assert_eq!(worker.one().await.message.ledger.replayed, 2, "each replay is counted");
}

pub(crate) async fn everything_sent_comes_back(case: Case) {
    case.kill_these(vec![full_message("m")]).await;
    case.replay(DeadLetterIds::All).await;
    let received = case.worker().await.one().await.message;
    assert_as_sent(&received, &full_message("m"));
    let [remembered] = received.ledger.history() else { panic!("the history stays") };
    assert_eq!(remembered.detail, failed_try(1).detail, "the history stays complete");
}

pub(crate) async fn only_the_chosen_are_discarded(case: Case) {
    let dead = case.kill(4).await;
    assert_eq!(case.discard(these([&dead[0], &dead[2]])).await, 2, "discard returns how many");
    assert_eq!(
        case.discard(DeadLetterIds::Ids(Vec::new())).await,
        0,
        "an empty selection discards nothing"
    );
    assert_eq!(case.dead().await, [dead[1].clone(), dead[3].clone()], "the others stay");
    assert_eq!(case.replay(these([&dead[0]])).await, 0, "a discarded letter is gone");
}

pub(crate) async fn a_discard_of_all_leaves_none_and_touches_nothing_else(case: Case) {
    case.kill(3).await;
    case.send_all(messages(2)).await;
    let _held = case.worker().await.one().await;
    assert_eq!(case.discard(DeadLetterIds::All).await, 3, "discard returns how many");
    assert_eq!(case.discard(DeadLetterIds::All).await, 0, "once");
    case.assert_depth([1, 0, 1, 0], "after discarding the dead").await;
}

pub(crate) async fn a_discard_ignores_unknown_ids(case: Case) {
    let dead = case.kill(2).await;
    let ids = [
        DeadLetterId::from_number(i64::MAX),
        dead[0].id,
        dead[0].id,
        DeadLetterId::from_number(i64::MIN),
    ];
    assert_eq!(
        case.discard(DeadLetterIds::Ids(ids.to_vec())).await,
        1,
        "only existing letters count"
    );
    assert_eq!(case.dead().await, [dead[1].clone()], "the others stay");
}

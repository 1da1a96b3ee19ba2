//! The outcomes of replayed messages.

use std::time::Duration;

use bezoar_core::{
    FailureKind, Settlement,
    catalogue::{
        CatalogueError, Filter, ItemState, OperationCommand, OperationKind, OperationState,
    },
};

use crate::catalogue::store::*;

pub(crate) async fn a_message_that_fails_again_is_a_new_dead_letter(store: Store) {
    store.kill("lab", message("a"), "no connection").await;
    let before = store.only().await;
    let id = store.run(replay(), everything()).await.id;
    store.settle_all("lab", &dead("no patient")).await;
    let after = store.only().await;
    assert_ne!((before.id, &before.cause), (after.id, &after.cause));
    assert_eq!((after.replayed, after.attempts), (1, 1));
    let item = store.items(id).await.remove(0);
    assert_eq!(item.dead_letter, before.id);
    assert_eq!(item.state, ItemState::Failed { again: after.id, cause: after.cause.clone() });
    let now = store.operation(id).await;
    assert_eq!((now.state, now.failed, now.completed), (OperationState::Ended, 1, 0));
    let record = store.record(after.id).await;
    assert_eq!((record.operations, record.message.ledger.replay), (vec![id], Some(id)));
    let replayed = Filter { replayed: Some(true), ..Filter::default() };
    assert_eq!(store.count(&replayed).await, 1);
}

pub(crate) async fn a_dead_letter_knows_which_ones_it_was_before(store: Store) {
    let mut earlier = vec![store.kill("lab", message("a"), "boom").await];
    for _ in 0..2 {
        store.run(replay(), everything()).await;
        store.settle_all("lab", &dead("boom")).await;
        let now = store.only().await.id;
        assert_eq!(store.record(now).await.earlier, earlier, "oldest first");
        earlier.push(now);
    }
}

pub(crate) async fn a_replayed_dead_letter_says_what_became_of_it(store: Store) {
    let old = store.kill("lab", message("a"), "boom").await;
    let operation = store.run(replay(), everything()).await.id;
    let became = async || match store.catalogue().record(old).await {
        Err(CatalogueError::Replayed { id, operation, state }) if id == old => (operation, state),
        other => panic!("it was replayed, got {other:?}"),
    };
    assert_eq!(became().await, (operation, ItemState::InFlight));
    store.settle_all("lab", &dead("boom")).await;
    let new = store.only().await;
    let failed = ItemState::Failed { again: new.id, cause: new.cause };
    assert_eq!(became().await, (operation, failed));
}

pub(crate) async fn a_discarded_dead_letter_says_so(store: Store) {
    let old = store.kill("lab", message("a"), "boom").await;
    let operation = store.run(OperationKind::Discard, everything()).await.id;
    let gone = store.catalogue().record(old).await;
    let is_named = matches!(&gone, Err(CatalogueError::Discarded { id, operation: by }) if (*id, *by) == (old, operation));
    assert!(is_named, "{gone:?}");
}

pub(crate) async fn a_broker_letter_that_fails_again_knows_which_one_it_was(store: Store) {
    store.take_in(vec![letter(1, message("a"))]).await;
    let before = store.only().await.id;
    store.run(replay(), everything()).await;
    let given = store.give_to_broker(RESULTS).await.remove(0);
    store.take_in(vec![letter(2, given)]).await;
    let after = store.only().await.id;
    assert_eq!(store.record(after).await.earlier, [before]);
    let moved = store.catalogue().record(before).await;
    let is_named = matches!(&moved, Err(CatalogueError::Replayed { state: ItemState::Failed { again, .. }, .. }) if *again == after);
    assert!(is_named, "{moved:?}");
}

pub(crate) async fn a_retry_in_between_is_no_outcome(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let id = store.run(replay(), everything()).await.id;
    let tries = vec![tried(FailureKind::Transient, "boom", "boom")];
    store.settle_all("lab", &Settlement::Retry { after: Duration::ZERO, tries }).await;
    store.settle_all("lab", &Settlement::Release { after: Duration::ZERO }).await;
    assert_eq!(store.outcomes(id).await, (1, 0, 0));
    let held = store.receive("lab", 1).await;
    assert_eq!(held[0].message.ledger.replay, Some(id), "retries keep the replay");
    store.settle("lab", held, &Settlement::Complete).await;
    assert_eq!(store.outcomes(id).await, (0, 1, 0));
}

pub(crate) async fn each_outcome_counts_once_and_for_its_own_replay(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(store.run(replay(), everything()).await.id);
        store.settle_all("lab", &dead("boom")).await;
    }
    ids.push(store.run(replay(), everything()).await.id);
    store.settle_all("lab", &Settlement::Complete).await;
    for (place, id) in ids.iter().enumerate() {
        let expected = if place < 3 { (0, 0, 1) } else { (0, 1, 0) };
        assert_eq!(store.outcomes(*id).await, expected, "{place}");
        assert_eq!(store.operation(*id).await.state, OperationState::Ended);
    }
}

pub(crate) async fn a_paused_replay_ends_with_its_last_outcome(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let id = store.run(replay(), everything()).await.id;
    store.command(id, OperationCommand::Pause).await;
    store.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(store.operation(id).await.state, OperationState::Ended);
}

pub(crate) async fn another_messages_success_completes_nothing(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let id = store.run(replay(), everything()).await.id;
    store.send("x-ray", message("a")).await;
    store.settle_all("x-ray", &Settlement::Complete).await;
    assert_eq!(store.outcomes(id).await, (1, 0, 0), "the same id, in another queue");
}

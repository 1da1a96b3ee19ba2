//! What became of messages that were replayed.

use std::time::Duration;

use bezoar_core::{
    DeadLetterAccess, DeadLetterIds, Settlement,
    catalogue::{Filter, ItemState, OperationState},
};

use super::{census, ward::*};

#[tokio::test]
async fn one_that_fails_again_is_known_by_its_new_dead_letter_and_cause() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "no connection").await;
    let before = ward.latest().await;
    let id = ward.run(replay(), everything()).await.id;
    ward.settle_all("lab", &dead("no patient")).await;
    let after = ward.latest().await;
    assert_ne!((before.id, &before.cause), (after.id, &after.cause));
    assert_eq!((after.replayed, after.attempts), (1, 1));
    let item = ward.items(id).await.remove(0);
    assert_eq!(item.dead_letter, before.id);
    assert_eq!(item.state, ItemState::Failed { again: after.id, cause: after.cause.clone() });
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.failed, now.completed), (OperationState::Ended, 1, 0));
    let record = ward.store.record(after.id).await.unwrap();
    assert_eq!(record.operations, [id]);
    assert_eq!(record.message.ledger.replay, Some(id));
    assert_eq!(ward.list(&Filter { replayed: Some(true), ..Filter::default() }).await.len(), 1);
    census::check(&ward);
}

#[tokio::test]
async fn a_retry_in_between_is_no_outcome() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    let tries = vec![failed_try(bezoar_core::FailureKind::Transient, "boom", "boom")];
    ward.settle_all("lab", &Settlement::Retry { after: Duration::ZERO, tries }).await;
    ward.settle_all("lab", &Settlement::Release { after: Duration::ZERO }).await;
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.in_flight()), (OperationState::Running, 1));
    let held = ward.receive("lab", 1).await;
    assert_eq!(held[0].message.ledger.replay, Some(id), "however often it is tried");
    ward.settle("lab", held, &Settlement::Complete).await;
    assert_eq!(ward.operation(id).await.completed, 1);
}

#[tokio::test]
async fn a_replay_of_a_replay_counts_each_outcome_once_and_where_it_belongs() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(ward.run(replay(), everything()).await.id);
        ward.settle_all("lab", &dead("boom")).await;
    }
    ids.push(ward.run(replay(), everything()).await.id);
    ward.settle_all("lab", &Settlement::Complete).await;
    for (place, id) in ids.iter().enumerate() {
        let now = ward.operation(*id).await;
        let expected = if place < 3 { (0, 1) } else { (1, 0) };
        assert_eq!((now.completed, now.failed), expected, "{place}");
        assert_eq!(now.state, OperationState::Ended);
    }
    census::check(&ward);
}

#[tokio::test]
async fn what_is_replayed_without_an_operation_changes_none() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    ward.settle_all("lab", &dead("boom")).await;
    ward.store.replay(&queue("lab"), &DeadLetterIds::All).await.unwrap();
    let held = ward.receive("lab", 1).await;
    assert_eq!((held[0].message.ledger.replayed, held[0].message.ledger.replay), (2, None));
    ward.settle("lab", held, &Settlement::Complete).await;
    let now = ward.operation(id).await;
    assert_eq!((now.completed, now.failed), (0, 1));
    census::check(&ward);
}

#[tokio::test]
async fn a_paused_replay_ends_with_the_last_outcome() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    ward.command(id, bezoar_core::catalogue::OperationCommand::Pause).await;
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(ward.operation(id).await.state, OperationState::Ended);
}

#[tokio::test]
async fn a_row_that_was_damaged_in_flight_has_failed_again() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    ward.sql("UPDATE bezoar_messages SET headers = 'no JSON'");
    assert_eq!(ward.receive("lab", 1).await.len(), 0);
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.failed), (OperationState::Ended, 1));
    assert_eq!(ward.latest().await.code, bezoar_core::Reason::DAMAGED);
    census::check(&ward);
}

//! Operations from their plan to their end.

use bezoar_core::{
    QueueAdmin, Settlement, SubscribeOptions, Transport,
    catalogue::{
        CatalogueError, Filter, ItemState, Operation, OperationCommand, OperationId, OperationKind,
        OperationState, ReplayIds, Selection, Verb,
    },
};

use super::{census, ward::*};

#[tokio::test]
async fn a_replay_is_sent_in_pieces_and_ends_when_every_outcome_is_known() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 5, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    assert_eq!(ward.advance(id, 2).await.done, 0, "it does not run yet");
    ward.command(id, OperationCommand::Run).await;
    let step = ward.advance(id, 2).await;
    assert_eq!((step.done, step.operation.done, step.operation.in_flight()), (2, 2, 2));
    assert_eq!(ward.settle_all("lab", &Settlement::Complete).await, 2);
    assert_eq!(ward.advance(id, 100).await.done, 3);
    assert_eq!(ward.advance(id, 100).await.done, 0);
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.completed, now.in_flight()), (OperationState::Running, 2, 3));
    ward.settle_all("lab", &Settlement::Complete).await;
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.completed, now.in_flight()), (OperationState::Ended, 5, 0));
    assert!(now.ended_at.is_some());
    assert!(ward.items(id).await.iter().all(|item| item.state == ItemState::Completed));
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_messages"), 0);
    census::check(&ward);
}

#[tokio::test]
async fn a_discard_removes_messages_and_ends() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 3, "boom").await;
    ward.kill_many("x-ray", 2, "boom").await;
    let ended = ward.run(OperationKind::Discard, everything()).await;
    assert_eq!((ended.state, ended.done), (OperationState::Ended, 5));
    assert_eq!(ended.queues, [(queue("lab"), 3), (queue("x-ray"), 2)]);
    assert!(ward.items(ended.id).await.iter().all(|item| item.state == ItemState::Discarded));
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_messages"), 0);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_attempts"), 0);
    assert_eq!(ward.store.causes(&Filter::default(), 9).await.unwrap(), []);
    census::check(&ward);
}

#[tokio::test]
async fn a_replayed_message_keeps_its_id_and_history_and_knows_its_replay() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    let held = ward.receive("lab", 9).await;
    let message = &held[0].message;
    assert_eq!(message.id.as_str(), "a");
    assert_eq!(message.ledger.replay, Some(id));
    let counted = (message.ledger.replayed, message.ledger.failed, message.ledger.acquired);
    assert_eq!((counted, message.ledger.history().len()), ((1, 0, 1), 1));
    assert!(!held[0].redelivered);
}

#[tokio::test]
async fn a_replay_under_new_ids_names_the_old_one_as_its_cause() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let kind = OperationKind::Replay {
        canary: 0,
        per_second: None,
        stop_after: None,
        ids: ReplayIds::New,
    };
    let first = ward.run(kind, everything()).await.id;
    let held = ward.receive("lab", 9).await;
    let message = held[0].message.clone();
    assert_ne!(message.id.as_str(), "a");
    assert_eq!(message.causation_id.as_ref().unwrap().as_str(), "a");
    assert_eq!(message.body.reveal().as_ref(), CANARY.as_bytes());
    assert_eq!((message.ledger.replay, message.ledger.history().len()), (Some(first), 1));
    assert_eq!(ward.items(first).await[0].message_id.as_str(), "a");
    ward.settle("lab", held, &dead("boom")).await;
    let second = ward.run(replay(), everything()).await.id;
    ward.settle_all("lab", &dead("boom")).await;
    let record = ward.store.record(ward.latest().await.id).await.unwrap();
    assert_eq!(record.operations, [first, second], "also those under the old id");
    assert_eq!(record.message.ledger.replay, Some(second));
    census::check(&ward);
}

#[tokio::test]
async fn a_canary_goes_first_and_the_rest_only_after_it() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 5, "boom").await;
    let kind = OperationKind::Replay {
        canary: 2,
        per_second: None,
        stop_after: None,
        ids: ReplayIds::Same,
    };
    let id = ward.plan(kind, everything()).await.id;
    ward.command(id, OperationCommand::Run).await;
    assert_eq!(ward.advance(id, 100).await.done, 2);
    assert_eq!(ward.advance(id, 100).await.done, 0);
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(ward.advance(id, 100).await.done, 3);
}

#[tokio::test]
async fn what_stopped_by_itself_goes_on_when_somebody_says_so() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 5, "boom").await;
    let kind = OperationKind::Replay {
        canary: 1,
        per_second: None,
        stop_after: Some(1),
        ids: ReplayIds::Same,
    };
    let id = ward.plan(kind, everything()).await.id;
    ward.command(id, OperationCommand::Run).await;
    ward.advance(id, 100).await;
    ward.settle_all("lab", &dead("boom")).await;
    assert_eq!(ward.advance(id, 100).await.done, 0, "its own progress forbids it");
    let stopped = ward.store.stop(id, "1 failed again").await.unwrap();
    assert_eq!(stopped.state, OperationState::Stopped);
    assert_eq!(stopped.stopped.as_deref(), Some("1 failed again"));
    let again = ward.store.stop(id, "twice").await.unwrap();
    assert_eq!(again.stopped.as_deref(), Some("1 failed again"), "it does not run");
    assert_eq!(ward.command(id, OperationCommand::Run).await.stopped, None);
    assert_eq!(ward.advance(id, 100).await.done, 4);
    census::check(&ward);
}

#[tokio::test]
async fn a_cancelled_replay_frees_what_was_not_done_and_still_learns_of_the_rest() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 5, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    ward.command(id, OperationCommand::Run).await;
    ward.advance(id, 2).await;
    let cancelled = ward.command(id, OperationCommand::Cancel).await;
    assert_eq!((cancelled.state, cancelled.in_flight()), (OperationState::Cancelled, 2));
    assert!(cancelled.ended_at.is_some());
    assert_eq!(ward.advance(id, 2).await.done, 0);
    let other = ward.run(OperationKind::Discard, everything()).await;
    assert_eq!((other.total, other.refused), (3, 0));
    ward.settle_all("lab", &Settlement::Complete).await;
    let now = ward.operation(id).await;
    assert_eq!((now.state, now.completed, now.in_flight()), (OperationState::Cancelled, 2, 0));
    let states: Vec<_> = ward.items(id).await.iter().map(|item| item.state.as_str()).collect();
    assert_eq!(states, ["completed", "completed", "left", "left", "left"]);
    census::check(&ward);
}

#[tokio::test]
async fn an_operation_pauses_and_goes_on_and_refuses_what_makes_no_sense() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 2, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    let refused =
        ward.store.command(id, OperationCommand::Pause, &act(Verb::Replay)).await.unwrap_err();
    assert!(refused.to_string().contains("planned"), "{refused}");
    ward.command(id, OperationCommand::Run).await;
    assert_eq!(ward.command(id, OperationCommand::Pause).await.state, OperationState::Paused);
    assert_eq!(ward.advance(id, 9).await.done, 0);
    ward.command(id, OperationCommand::Run).await;
    ward.advance(id, 9).await;
    ward.settle_all("lab", &Settlement::Complete).await;
    let refused =
        ward.store.command(id, OperationCommand::Cancel, &act(Verb::Replay)).await.unwrap_err();
    assert!(matches!(refused, CatalogueError::Conflict(_)), "{refused}");
    let missing = ward.store.operation(OperationId(9)).await.unwrap_err();
    assert!(matches!(missing, CatalogueError::NoOperation(OperationId(9))));
    assert!(ward.store.advance(OperationId(9), 1).await.is_err());
    assert!(ward.store.items(OperationId(9), 0, 1).await.is_err());
}

#[tokio::test]
async fn operations_are_listed_the_latest_first_and_those_that_go_on_apart() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 2, "boom").await;
    let ended = ward.run(OperationKind::Discard, Selection::Ids(vec![ids[0]])).await.id;
    let planned = ward.plan(replay(), everything()).await.id;
    let ids = |all: Vec<Operation>| all.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(ward.store.operations(9).await.unwrap()), [planned, ended]);
    assert_eq!(ids(ward.store.running(9).await.unwrap()), []);
    ward.command(planned, OperationCommand::Run).await;
    assert_eq!(ids(ward.store.running(9).await.unwrap()), [planned]);
}

#[tokio::test]
async fn an_empty_selection_has_ended_at_once() {
    let ward = Ward::new().await;
    for kind in [replay(), OperationKind::Discard] {
        assert_eq!(ward.plan(kind, everything()).await.state, OperationState::Ended);
    }
}

#[tokio::test]
async fn a_dead_letter_that_somebody_removed_by_hand_is_left_out() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    ward.sql(&format!("DELETE FROM bezoar_dead WHERE id = {}", ids[1]));
    ward.command(id, OperationCommand::Run).await;
    let step = ward.advance(id, 9).await;
    assert_eq!((step.done, step.operation.total, step.operation.refused), (2, 2, 1));
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(ward.operation(id).await.state, OperationState::Ended);
}

#[tokio::test]
async fn a_replay_wakes_who_waits_for_the_queue() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let options = SubscribeOptions::default();
    let open = ward.store.subscribe(&queue("lab"), options).await.unwrap();
    let patience = std::time::Duration::from_secs(30);
    let (held, _) = tokio::join!(
        open.receive(std::num::NonZeroU32::MIN, patience),
        ward.run(replay(), everything()),
    );
    assert_eq!(held.unwrap().len(), 1);
    assert_eq!(ward.store.depth(&queue("lab")).await.unwrap().dead, Some(0));
}

//! Operations from their plan to their end.

use bezoar_core::{
    Settlement,
    catalogue::{
        CatalogueError, Filter, ItemState, Operation, OperationCommand, OperationKind,
        OperationState, ReplayIds, Selection, Verb,
    },
};

use crate::catalogue::store::*;

pub(crate) async fn a_replay_ends_when_every_outcome_is_known(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    assert_eq!(store.advance(id, 2).await.done, 0, "it is not running yet");
    store.command(id, OperationCommand::Run).await;
    let step = store.advance(id, 2).await;
    assert_eq!((step.done, step.operation.done, step.operation.in_flight()), (2, 2, 2));
    assert_eq!(store.settle_all("lab", &Settlement::Complete).await, 2);
    assert_eq!(store.advance(id, 100).await.done, 3);
    assert_eq!(store.advance(id, 100).await.done, 0);
    let now = store.operation(id).await;
    assert_eq!((now.state, now.completed, now.in_flight()), (OperationState::Running, 2, 3));
    store.settle_all("lab", &Settlement::Complete).await;
    let now = store.operation(id).await;
    assert_eq!((now.state, now.completed, now.in_flight()), (OperationState::Ended, 5, 0));
    assert!(now.ended_at.is_some());
    assert!(store.items(id).await.iter().all(|item| item.state == ItemState::Completed));
}

pub(crate) async fn a_discard_removes_letters_and_ends(store: Store) {
    store.kill_many("lab", 3, "boom").await;
    store.kill_many("x-ray", 2, "boom").await;
    let ended = store.run(OperationKind::Discard, everything()).await;
    assert_eq!((ended.state, ended.done), (OperationState::Ended, 5));
    assert_eq!(ended.queues, [(queue("lab"), 3), (queue("x-ray"), 2)]);
    assert!(store.items(ended.id).await.iter().all(|item| item.state == ItemState::Discarded));
    assert_eq!(store.count(&Filter::default()).await, 0);
    assert_eq!(store.admin().depth(&queue("lab")).await.expect("a depth").dead, Some(0));
    assert_eq!(store.receive("lab", 9).await.len(), 0);
}

pub(crate) async fn a_replayed_message_keeps_its_id_and_history(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let id = store.run(replay(), everything()).await.id;
    let held = store.receive("lab", 9).await;
    let message = &held[0].message;
    assert_eq!(message.id.as_str(), "a");
    assert_eq!(message.ledger.replay, Some(id));
    let counted = (message.ledger.replayed, message.ledger.failed, message.ledger.acquired);
    assert_eq!((counted, message.ledger.history().len()), ((1, 0, 1), 1));
    assert!(!held[0].redelivered);
}

pub(crate) async fn a_replay_under_new_ids_names_the_old_one(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let first = store.run(replay_with(0, None, ReplayIds::New), everything()).await.id;
    let held = store.receive("lab", 9).await;
    let message = held[0].message.clone();
    assert_ne!(message.id.as_str(), "a");
    assert_eq!(message.causation_id.as_ref().map(|id| id.as_str()), Some("a"));
    assert_eq!(message.body.reveal().as_ref(), CANARY.as_bytes());
    assert_eq!((message.ledger.replay, message.ledger.history().len()), (Some(first), 1));
    assert_eq!(store.items(first).await[0].message_id.as_str(), "a");
    store.settle("lab", held, &dead("boom")).await;
    let second = store.run(replay(), everything()).await.id;
    store.settle_all("lab", &dead("boom")).await;
    let record = store.record(store.only().await.id).await;
    assert_eq!(record.operations, [first, second], "replays under the old id are included");
    assert_eq!(record.message.ledger.replay, Some(second));
}

pub(crate) async fn a_canary_goes_first_and_the_rest_only_after_it(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay_with(2, None, ReplayIds::Same), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    assert_eq!(store.advance(id, 100).await.done, 2);
    assert_eq!(store.advance(id, 100).await.done, 0);
    store.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(store.advance(id, 100).await.done, 3);
}

pub(crate) async fn a_failed_canary_holds_the_rest_back(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay_with(2, None, ReplayIds::Same), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    assert_eq!(store.advance(id, 100).await.done, 2, "only the canary is sent");
    store.settle_all("lab", &dead("boom")).await;
    assert_eq!(store.advance(id, 100).await.done, 0, "a failed canary allows no further step");
}

pub(crate) async fn a_stopped_operation_says_why_and_goes_on_when_told(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay_with(1, Some(1), ReplayIds::Same), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    store.advance(id, 100).await;
    store.settle_all("lab", &dead("boom")).await;
    let stop = async |reason| store.catalogue().stop(id, reason).await.expect("it exists");
    let stopped = stop("1 failed again").await;
    assert_eq!(stopped.state, OperationState::Stopped);
    assert_eq!(stopped.stopped.as_deref(), Some("1 failed again"));
    let again = stop("twice").await;
    assert_eq!(
        again.stopped.as_deref(),
        Some("1 failed again"),
        "stopping it again changes nothing"
    );
    assert_eq!(store.command(id, OperationCommand::Run).await.stopped, None);
    assert_eq!(store.advance(id, 100).await.done, 4);
}

pub(crate) async fn a_cancelled_replay_frees_what_was_not_sent(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    store.advance(id, 2).await;
    let cancelled = store.command(id, OperationCommand::Cancel).await;
    assert_eq!((cancelled.state, cancelled.in_flight()), (OperationState::Cancelled, 2));
    assert!(cancelled.ended_at.is_some());
    assert_eq!(store.advance(id, 2).await.done, 0);
    let other = store.run(OperationKind::Discard, everything()).await;
    assert_eq!((other.total, other.refused), (3, 0));
    store.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(store.outcomes(id).await, (0, 2, 0), "outcomes are still recorded");
    let states: Vec<_> = store.items(id).await.iter().map(|item| item.state.as_str()).collect();
    assert_eq!(states, ["completed", "completed", "left", "left", "left"]);
}

pub(crate) async fn a_paused_operation_does_nothing_until_it_is_resumed(store: Store) {
    store.kill_many("lab", 2, "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    assert_eq!(store.command(id, OperationCommand::Pause).await.state, OperationState::Paused);
    assert_eq!(store.advance(id, 9).await.done, 0);
    store.command(id, OperationCommand::Run).await;
    assert_eq!(store.advance(id, 9).await.done, 2);
}

pub(crate) async fn a_command_that_makes_no_sense_is_refused(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    let command = async |command| {
        store.catalogue().command(id, command, &action(Verb::Replay)).await.map(|it| it.state)
    };
    let refused = command(OperationCommand::Pause).await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "it is not running yet");
    store.command(id, OperationCommand::Run).await;
    store.advance(id, 9).await;
    store.settle_all("lab", &Settlement::Complete).await;
    let refused = command(OperationCommand::Cancel).await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "it has ended");
    assert_eq!(store.verbs().await.len(), 2, "a refused command is not in the audit log");
}

pub(crate) async fn a_missing_operation_is_named(store: Store) {
    let (missing, catalogue) = (no_operation(), store.catalogue());
    let refused = catalogue.operation(missing).await;
    assert!(matches!(refused, Err(CatalogueError::NoOperation(id)) if id == missing));
    assert!(catalogue.advance(missing, 1).await.is_err());
    assert!(catalogue.items(missing, 0, 1).await.is_err());
    assert!(catalogue.stop(missing, "it").await.is_err());
}

pub(crate) async fn operations_are_listed_newest_first_and_running_ones_apart(store: Store) {
    let ids = store.kill_many("lab", 2, "boom").await;
    let ended = store.run(OperationKind::Discard, Selection::Ids(vec![ids[0]])).await.id;
    let planned = store.plan(replay(), everything()).await.id;
    let ids = |all: Vec<Operation>| all.iter().map(|it| it.id).collect::<Vec<_>>();
    let catalogue = store.catalogue();
    assert_eq!(ids(catalogue.operations(9).await.expect("a list")), [planned, ended]);
    assert_eq!(ids(catalogue.running(9).await.expect("a list")), []);
    store.command(planned, OperationCommand::Run).await;
    assert_eq!(ids(catalogue.running(9).await.expect("a list")), [planned]);
}

pub(crate) async fn items_are_listed_after_a_place(store: Store) {
    store.kill_many("lab", 5, "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    let items = store.catalogue().items(id, 2, 2).await.expect("items");
    assert_eq!(items.iter().map(|item| item.place).collect::<Vec<_>>(), [3, 4]);
}

pub(crate) async fn a_replay_wakes_a_waiting_consumer(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let options = bezoar_core::SubscribeOptions::default();
    let open = store.transport().subscribe(&queue("lab"), options).await.expect("a queue");
    let patience = std::time::Duration::from_secs(20);
    let (held, _) = tokio::join!(
        open.receive(std::num::NonZeroU32::MIN, patience),
        store.run(replay(), everything()),
    );
    assert_eq!(held.expect("receiving works").len(), 1);
}

//! What survives a restart.

use bezoar_core::{
    Settlement,
    catalogue::{Filter, OperationCommand, OperationState, Verb},
};

use crate::catalogue::store::*;

pub(crate) async fn dead_letters_causes_and_ids_survive(mut store: Store) {
    store.kill_many("lab", 3, "boom").await;
    let (letters, causes) = (store.all().await, store.causes(&Filter::default()).await);
    store.restart().await;
    assert_eq!(store.all().await, letters);
    assert_eq!(store.causes(&Filter::default()).await, causes, "the store keeps its key");
}

pub(crate) async fn a_running_operation_goes_on_where_it_was(mut store: Store) {
    store.kill_many("lab", 4, "boom").await;
    let id = store.plan(replay(), everything()).await.id;
    store.command(id, OperationCommand::Run).await;
    store.advance(id, 3).await;
    store.restart().await;
    let now = store.operation(id).await;
    assert_eq!((now.state, now.done), (OperationState::Running, 3));
    assert_eq!(store.advance(id, 9).await.done, 1);
    assert_eq!(store.settle_all("lab", &Settlement::Complete).await, 4);
    assert_eq!(store.operation(id).await.state, OperationState::Ended);
}

pub(crate) async fn settings_and_the_audit_log_survive(mut store: Store) {
    let set = store.catalogue().set("paused.lab", Some("by ann"), &action(Verb::Pause)).await;
    set.expect("a setting can be kept");
    store.restart().await;
    let found = store.catalogue().setting("paused.lab").await.expect("a setting can be read");
    assert_eq!(found.as_deref(), Some("by ann"));
    assert_eq!(store.verbs().await, ["pause"]);
}

pub(crate) async fn what_was_taken_in_is_still_known(mut store: Store) {
    store.take_in(vec![letter(7, message("a"))]).await;
    store.restart().await;
    assert_eq!(store.take_in(vec![letter(7, message("a"))]).await, 0);
}

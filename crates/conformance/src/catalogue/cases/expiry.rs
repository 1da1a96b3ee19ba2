//! Removing old dead letters.

use std::time::Duration;

use bezoar_core::catalogue::{Filter, Verb};

use crate::catalogue::store::*;

async fn expire(store: &Store, age_seconds: u64, limit: u32) -> u32 {
    let before = store.now() - Duration::from_secs(age_seconds);
    let expired = store.catalogue().expire(before, limit, &action(Verb::Expire)).await;
    expired.expect("old dead letters can be removed")
}

pub(crate) async fn old_letters_are_removed_and_young_ones_stay(store: Store) {
    store.kill_many("lab", 3, "boom").await;
    store.elapse(100).await;
    let young = store.kill("lab", message("young"), "boom").await;
    assert_eq!(expire(&store, 100, 10).await, 0, "the limit itself does not expire");
    store.elapse(1).await;
    assert_eq!(expire(&store, 100, 2).await, 2, "at most `limit` are removed");
    assert_eq!(expire(&store, 100, 10).await, 1);
    assert_eq!(store.only().await.id, young);
    assert_eq!(store.admin().depth(&queue("lab")).await.expect("a depth").dead, Some(1));
}

pub(crate) async fn an_expiry_is_audited_only_if_it_removes_something(store: Store) {
    assert_eq!(expire(&store, 1, 10).await, 0);
    assert_eq!(store.verbs().await, [""; 0]);
    store.kill("lab", message("a"), "boom").await;
    store.elapse(9).await;
    assert_eq!(expire(&store, 1, 10).await, 1);
    assert_eq!(store.verbs().await, ["expire"]);
}

pub(crate) async fn letters_of_an_operation_do_not_expire(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    store.plan(replay(), everything()).await;
    store.elapse(9).await;
    assert_eq!(expire(&store, 1, 10).await, 0);
    assert_eq!(store.count(&Filter::default()).await, 1);
}

pub(crate) async fn what_just_arrived_does_not_expire_however_long_it_is_dead(store: Store) {
    store.elapse(1_000_000).await;
    store.take_in(vec![letter(1, message("a"))]).await;
    assert!(store.only().await.died_at < store.now() - Duration::from_secs(900_000));
    assert_eq!(expire(&store, 60, 10).await, 0, "it has only just arrived");
    store.elapse(61).await;
    let arrived = Filter { arrived_before: Some(store.now()), ..Filter::default() };
    assert_eq!(store.count(&arrived).await, 1);
    assert_eq!(expire(&store, 60, 10).await, 1);
}

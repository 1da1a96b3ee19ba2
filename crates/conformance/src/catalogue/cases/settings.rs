//! Small settings.

use bezoar_core::catalogue::{CatalogueError, TEXT_LIMIT_BYTES, Verb};

use super::broker_intake::is_full;
use crate::catalogue::store::*;

async fn set(store: &Store, value: Option<&str>) {
    let set = store.catalogue().set("paused.lab", value, &action(Verb::Pause)).await;
    set.expect("a setting can be kept");
}

async fn setting(store: &Store, name: &str) -> Option<String> {
    store.catalogue().setting(name).await.expect("a setting can be read")
}

pub(crate) async fn a_setting_has_the_last_value_and_can_be_removed(store: Store) {
    set(&store, Some("by ann")).await;
    set(&store, Some("by bob")).await;
    assert_eq!(setting(&store, "paused.lab").await.as_deref(), Some("by bob"));
    assert_eq!(setting(&store, "paused").await, None);
    set(&store, None).await;
    assert_eq!(setting(&store, "paused.lab").await, None);
    assert_eq!(store.verbs().await, ["pause", "pause", "pause"]);
}

pub(crate) async fn a_setting_that_is_too_long_is_refused(store: Store) {
    let long = "x".repeat(TEXT_LIMIT_BYTES + 1);
    let refused = store.catalogue().set("name", Some(&long), &action(Verb::Pause)).await;
    assert!(matches!(refused, Err(CatalogueError::Invalid(_))), "{refused:?}");
    assert_eq!(setting(&store, "name").await, None);
}

pub(crate) async fn a_store_that_accepts_writes_says_so_and_logs_nothing(store: Store) {
    for _ in 0..3 {
        store.catalogue().check_writable().await.expect("the store accepts writes");
    }
    assert_eq!(store.verbs().await, [""; 0]);
}

pub(crate) async fn a_full_store_does_not_accept_writes(mut store: Store) {
    store.kill("lab", message("a"), "boom").await;
    store.restart_full().await;
    let refused = store.catalogue().check_writable().await;
    assert!(is_full(&refused), "{refused:?}");
    store.restart().await;
    store.catalogue().check_writable().await.expect("there is room again");
}

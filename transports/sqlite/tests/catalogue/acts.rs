//! Imports, settings, and what is left of old things.

use std::time::Duration;

use bezoar_core::{
    Clock, Settlement,
    catalogue::{DeadLetterRecord, DeadLetterState, Filter, Verb},
};

use super::{census, ward::*};

/// A record as another store has exported it.
async fn exported(detail: &str) -> DeadLetterRecord {
    let elsewhere = Ward::new().await;
    let id = elsewhere.kill("lab", message("a"), detail).await;
    elsewhere.store.record(id).await.unwrap()
}

#[tokio::test]
async fn what_is_imported_is_a_dead_letter_like_any_other_and_is_imported_once() {
    let ward = Ward::new().await;
    let record = exported("boom").await;
    let mut other = record.clone();
    other.entry.queue = queue("new here");
    let import = async |stamps: [&str; 2]| {
        let records = stamps.map(str::to_owned).into_iter().zip([record.clone(), other.clone()]);
        ward.store.import(records.collect(), &act(Verb::Import)).await.unwrap()
    };
    ward.clock.advance(Duration::from_secs(99));
    assert_eq!(import(["one", "two"]).await, 2);
    assert_eq!(import(["one", "three"]).await, 1);
    let entries = ward.list(&Filter::default()).await;
    assert_eq!(entries.len(), 3);
    let found = ward.store.record(entries[2].id).await.unwrap();
    assert_eq!(found.message, record.message);
    assert_eq!(found.reason, record.reason);
    assert_eq!(found.entry.at, ward.clock.now(), "it is set aside here and now");
    assert_ne!(found.entry.cause, record.entry.cause, "every store has its own key");
    ward.run(replay(), everything()).await;
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(import(["one", "two"]).await, 0, "also after it is gone");
    census::check(&ward);
}

#[tokio::test]
async fn what_could_not_be_replayed_there_cannot_be_here() {
    let ward = Ward::new().await;
    for (stamp, state) in
        [("edited", DeadLetterState::Edited), ("unapproved", DeadLetterState::Unapproved)]
    {
        let mut record = exported("boom").await;
        record.entry.state = state;
        ward.store.import(vec![(stamp.to_owned(), record)], &act(Verb::Import)).await.unwrap();
        assert_eq!(ward.latest().await.state, state);
    }
    let planned = ward.plan(replay(), everything()).await;
    assert_eq!((planned.total, planned.refused), (0, 2));
}

#[tokio::test]
async fn an_import_beyond_the_limits_is_refused_as_a_whole() {
    let ward = Ward::new().await;
    let record = exported("boom").await;
    let many = (0..10_001).map(|number| (number.to_string(), record.clone())).collect();
    assert!(ward.store.import(many, &act(Verb::Import)).await.is_err());
    let mut broken = record.clone();
    broken.message = broken.message.with_header("", "no name");
    let batch = vec![("one".to_owned(), record), ("two".to_owned(), broken)];
    assert!(ward.store.import(batch, &act(Verb::Import)).await.is_err());
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_stamps"), 0);
    assert_eq!(ward.list(&Filter::default()).await.len(), 0);
}

#[tokio::test]
async fn settings_outlive_a_restart_and_can_be_forgotten() {
    let ward = Ward::new().await;
    let set = async |ward: &Ward, value| {
        ward.store.set("paused.lab", value, &act(Verb::Pause)).await.unwrap();
    };
    set(&ward, Some("by ann")).await;
    set(&ward, Some("by bob")).await;
    let Ward { store, folder, .. } = ward;
    drop(store);
    let ward = Ward::in_folder(folder).await;
    assert_eq!(ward.store.setting("paused.lab").await.unwrap().as_deref(), Some("by bob"));
    assert_eq!(ward.store.setting("paused").await.unwrap(), None);
    set(&ward, None).await;
    assert_eq!(ward.store.setting("paused.lab").await.unwrap(), None);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_audit WHERE verb = 'pause'"), 3);
}

#[tokio::test]
async fn what_only_served_expired_dead_letters_goes_with_them() {
    let ward = Ward::new().await;
    let record = exported("boom").await;
    ward.store.import(vec![("one".to_owned(), record)], &act(Verb::Import)).await.unwrap();
    ward.run(bezoar_core::catalogue::OperationKind::Discard, everything()).await;
    let flying = ward.kill("lab", message("b"), "other").await;
    let selection = bezoar_core::catalogue::Selection::Ids(vec![flying]);
    let flying = ward.run(replay(), selection).await.id;
    ward.command(flying, bezoar_core::catalogue::OperationCommand::Cancel).await;
    let acknowledged = ward.store.causes(&Filter::default(), 9).await.unwrap();
    assert!(acknowledged.is_empty());
    ward.clock.advance(Duration::from_secs(99));
    let now = ward.clock.now();
    for _ in 0..5 {
        assert_eq!(ward.store.expire(now, 100, &act(Verb::Expire)).await.unwrap(), 0);
    }
    for table in ["bezoar_stamps", "bezoar_causes"] {
        assert_eq!(ward.one(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    let left = ward.store.operations(9).await.unwrap();
    assert_eq!(left.iter().map(|it| it.id).collect::<Vec<_>>(), [flying], "one is in flight");
    ward.settle_all("lab", &dead("other")).await;
    ward.store.expire(now, 100, &act(Verb::Expire)).await.unwrap();
    ward.store.expire(now, 100, &act(Verb::Expire)).await.unwrap();
    assert_eq!(ward.store.operations(9).await.unwrap(), []);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_items"), 0);
    census::check(&ward);
}

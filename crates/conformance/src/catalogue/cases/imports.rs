//! Dead letters from another store.

use bezoar_core::{
    Body, Settlement,
    catalogue::{CatalogueError, DeadLetterRecord, DeadLetterState, Filter, Verb},
    millis,
};

use crate::catalogue::store::*;

/// A record as another store exported it, dead-lettered there long ago.
async fn exported(store: &Store) -> DeadLetterRecord {
    let id = store.kill("lab", message("exported"), "boom").await;
    let mut record = store.record(id).await;
    store.run(bezoar_core::catalogue::OperationKind::Discard, everything()).await;
    record.entry.died_at = millis(7_000);
    record
}

async fn import(
    store: &Store,
    records: Vec<(&str, &DeadLetterRecord)>,
) -> Result<u64, CatalogueError> {
    let records = records.into_iter().map(|(stamp, it)| (stamp.to_owned(), it.clone())).collect();
    store.catalogue().import(records, &action(Verb::Import)).await
}

pub(crate) async fn an_imported_letter_is_like_any_other(store: Store) {
    let record = exported(&store).await;
    assert_eq!(import(&store, vec![("one", &record)]).await.expect("an import"), 1);
    let found = store.record(store.only().await.id).await;
    assert_eq!((&found.message, &found.reason), (&record.message, &record.reason));
    store.run(replay(), everything()).await;
    assert_eq!(store.settle_all("lab", &Settlement::Complete).await, 1);
}

pub(crate) async fn an_import_keeps_the_time_of_death(store: Store) {
    store.elapse(99).await;
    let record = exported(&store).await;
    import(&store, vec![("one", &record)]).await.expect("an import");
    let found = store.only().await;
    assert_eq!(found.died_at, millis(7_000), "the time of dead-lettering is kept");
    assert_eq!(found.arrived_at, store.now());
}

pub(crate) async fn the_same_letter_is_imported_once(store: Store) {
    let record = exported(&store).await;
    assert_eq!(import(&store, vec![("one", &record), ("two", &record)]).await.expect("one"), 2);
    assert_eq!(import(&store, vec![("one", &record), ("three", &record)]).await.expect("two"), 1);
    store.run(replay(), everything()).await;
    store.settle_all("lab", &Settlement::Complete).await;
    let again = import(&store, vec![("one", &record)]).await.expect("an import");
    assert_eq!(again, 0, "a discarded letter is not imported again");
}

pub(crate) async fn another_letter_under_a_known_stamp_is_a_conflict(store: Store) {
    let record = exported(&store).await;
    import(&store, vec![("one", &record)]).await.expect("an import");
    let mut other = record.clone();
    other.message = other.message.with_body(Body::from("another body"));
    let refused = import(&store, vec![("two", &record), ("one", &other)]).await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "{refused:?}");
    assert_eq!(store.all().await.len(), 1, "either all are imported or none");
}

pub(crate) async fn a_stamp_stands_for_its_letter_after_that_is_gone(store: Store) {
    let record = exported(&store).await;
    import(&store, vec![("one", &record)]).await.expect("an import");
    store.run(bezoar_core::catalogue::OperationKind::Discard, everything()).await;
    let mut other = record.clone();
    other.message = other.message.with_body(Body::from("another body"));
    let refused = import(&store, vec![("two", &record), ("one", &other)]).await;
    assert!(matches!(refused, Err(CatalogueError::Conflict(_))), "{refused:?}");
    assert_eq!(import(&store, vec![("one", &record)]).await.expect("an import"), 0);
    assert_eq!(store.all().await, [], "a discarded letter does not come back");
}

pub(crate) async fn an_import_creates_missing_queues(store: Store) {
    let mut record = exported(&store).await;
    record.entry.queue = queue("new here");
    import(&store, vec![("one", &record)]).await.expect("an import");
    assert_eq!(store.only().await.queue, queue("new here"));
    let queues = store.admin().queues().await.expect("queues can be listed");
    assert!(queues.contains(&queue("new here")));
}

pub(crate) async fn what_could_not_be_replayed_there_cannot_be_here(store: Store) {
    for (stamp, state) in
        [("edited", DeadLetterState::Edited), ("unapproved", DeadLetterState::Unapproved)]
    {
        let mut record = exported(&store).await;
        record.entry.state = state;
        import(&store, vec![(stamp, &record)]).await.expect("an import");
        let found = store.list(&Filter { state: Some(state.as_str()), ..Filter::default() }).await;
        assert_eq!(found.len(), 1, "{stamp}");
        let planned = store.plan(replay(), everything()).await;
        assert_eq!((planned.total, planned.refused), (0, 1));
        store.run(bezoar_core::catalogue::OperationKind::Discard, everything()).await;
    }
}

pub(crate) async fn an_import_beyond_the_limits_adds_nothing(store: Store) {
    let record = exported(&store).await;
    let many = (0..10_001).map(|number| (number.to_string(), record.clone())).collect();
    assert!(store.catalogue().import(many, &action(Verb::Import)).await.is_err());
    let mut broken = record.clone();
    broken.message = broken.message.with_header("", "a header without a name");
    assert!(import(&store, vec![("one", &record), ("two", &broken)]).await.is_err());
    assert_eq!(store.all().await, []);
    assert_eq!(import(&store, vec![("one", &record)]).await.expect("an import"), 1);
}

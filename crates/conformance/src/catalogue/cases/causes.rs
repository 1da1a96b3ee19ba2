//! Causes: groups of dead letters, with states and notes.

use std::time::Duration;

use bezoar_core::{
    FailureKind, Reason, Settlement,
    catalogue::{CatalogueError, CauseId, CauseState, Filter, OperationKind, Verb},
};

use crate::catalogue::store::*;

pub(crate) async fn the_same_failure_is_one_cause_and_the_largest_is_first(store: Store) {
    store.kill("lab", message("a"), "no patient 17").await;
    let refused = store.kill_many("lab", 2, "connection to 10.0.0.1 refused").await;
    store.kill("lab", message("d"), "connection to 10.0.0.2 refused").await;
    let causes = store.causes(&Filter::default()).await;
    assert_eq!(causes.iter().map(|it| it.count).collect::<Vec<_>>(), [3, 1]);
    let first = &causes[0];
    assert_eq!(first.samples.len(), 3);
    assert_eq!(first.samples.last(), Some(&refused[0]));
    assert_eq!(first.title(), "boom (transient) of lab.result in lab");
    assert_eq!((first.ever, first.this_hour, first.last_hour), (3, 3, 0));
    let only = Filter { cause: Some(causes[1].id.clone()), ..Filter::default() };
    assert_eq!(store.causes(&only).await, causes[1..]);
    let one = store.catalogue().causes(&Filter::default(), 1).await.expect("causes");
    assert_eq!(one.len(), 1);
}

pub(crate) async fn two_queues_have_two_causes(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    store.kill("x-ray", message("b"), "boom").await;
    assert_eq!(store.causes(&Filter::default()).await.len(), 2);
    let lab = Filter { queues: Some(vec![queue("lab")]), ..Filter::default() };
    assert_eq!(store.causes(&lab).await.len(), 1);
}

pub(crate) async fn dead_workers_are_a_cause_of_their_own(store: Store) {
    store.send("lab", message("a")).await;
    let tries = vec![tried(FailureKind::Database, "db.down", "no connection")];
    store.settle_all("lab", &Settlement::Retry { after: Duration::ZERO, tries }).await;
    let crashed = Settlement::DeadLetter { reason: Reason::max_deliveries(5), tries: Vec::new() };
    store.settle_all("lab", &crashed).await;
    let letter = store.only().await;
    assert_eq!((letter.kind, letter.code), (FailureKind::Unknown, Reason::MAX_DELIVERIES));
}

pub(crate) async fn hours_pass(store: Store) {
    let now = async |store: &Store| {
        let cause = store.causes(&Filter::default()).await.remove(0);
        (cause.this_hour, cause.last_hour, cause.ever)
    };
    let first = store.now();
    store.kill_many("lab", 2, "boom").await;
    assert_eq!(now(&store).await, (2, 0, 2));
    store.elapse(3_600).await;
    assert_eq!(now(&store).await, (0, 2, 2));
    store.kill("lab", message("c"), "boom").await;
    assert_eq!(now(&store).await, (1, 2, 3));
    store.elapse(2 * 3_600).await;
    assert_eq!(now(&store).await, (0, 0, 3));
    store.kill("lab", message("d"), "boom").await;
    assert_eq!(now(&store).await, (1, 0, 4));
    let cause = store.causes(&Filter::default()).await.remove(0);
    assert_eq!((cause.first_seen, cause.last_seen), (first, store.now()));
}

pub(crate) async fn a_resolved_cause_regresses_and_keeps_its_note(store: Store) {
    let id = store.kill("lab", message("a"), "boom").await;
    let cause = store.only().await.cause;
    let mark = async |state| {
        let note = Some("replaced the pump");
        store
            .catalogue()
            .mark(&cause, state, note, &action(Verb::Mark))
            .await
            .expect("the cause exists")
    };
    let marked = mark(CauseState::Resolved).await;
    let note = Some(("replaced the pump".to_owned(), "ann".to_owned(), store.now()));
    assert_eq!((marked.state, marked.note), (CauseState::Resolved, note.clone()));
    let version = store.record(id).await.message;
    store.catalogue().edit(id, version, false, &action(Verb::Edit)).await.expect("a version");
    let only = Filter { cause: Some(cause.clone()), ..Filter::default() };
    let now = store.causes(&only).await.remove(0);
    assert_eq!(
        (now.state, now.count),
        (CauseState::Resolved, 2),
        "an edited version is not a new failure"
    );
    store.kill("lab", message("b"), "boom").await;
    let now = store.causes(&only).await.remove(0);
    assert_eq!((now.state, now.note), (CauseState::Regressed, note));
    mark(CauseState::Acknowledged).await;
    store.kill("lab", message("c"), "boom").await;
    assert_eq!(store.causes(&only).await[0].state, CauseState::Acknowledged);
}

pub(crate) async fn an_empty_note_removes_a_note_and_none_keeps_it(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let cause = store.only().await.cause;
    let mark = async |note| {
        let marked =
            store.catalogue().mark(&cause, CauseState::Open, note, &action(Verb::Mark)).await;
        marked.expect("the cause exists").note.map(|(text, _, _)| text)
    };
    assert_eq!(mark(Some("seen")).await.as_deref(), Some("seen"));
    assert_eq!(mark(None).await.as_deref(), Some("seen"));
    assert_eq!(mark(Some("")).await, None);
}

pub(crate) async fn an_unknown_cause_cannot_be_marked(store: Store) {
    let missing = CauseId::new("v1:0123456789abcdef").expect("a valid id");
    let marked =
        store.catalogue().mark(&missing, CauseState::Open, None, &action(Verb::Mark)).await;
    assert!(matches!(marked, Err(CatalogueError::NoCause(id)) if id == missing));
    assert_eq!(store.verbs().await, [""; 0], "a refused action is not in the audit log");
}

pub(crate) async fn causes_of_a_time_have_dead_letters_of_that_time(store: Store) {
    store.kill("lab", message("a"), "no doctor").await;
    store.elapse(9).await;
    let since = Some(store.now());
    store.kill("lab", message("b"), "no patient").await;
    let found = store.causes(&Filter { since, ..Filter::default() }).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, store.all().await[0].cause);
}

pub(crate) async fn a_cause_is_found_by_its_id_after_its_last_dead_letter(store: Store) {
    store.kill("lab", message("a"), "boom").await;
    let cause = store.only().await.cause;
    store.run(OperationKind::Discard, everything()).await;
    assert_eq!(store.causes(&Filter::default()).await, []);
    let only = Filter { cause: Some(cause), ..Filter::default() };
    let found = store.causes(&only).await;
    assert_eq!((found[0].count, found[0].ever), (0, 1));
}

pub(crate) async fn a_late_arrival_counts_in_the_hour_of_its_death(store: Store) {
    store.elapse(10 * 3_600).await;
    store.take_in(vec![letter(1, message("a"))]).await;
    let cause = store.causes(&Filter::default()).await.remove(0);
    assert_eq!((cause.count, cause.this_hour, cause.last_hour), (1, 0, 0));
    assert_eq!(cause.last_seen.as_millisecond(), 5_000);
}

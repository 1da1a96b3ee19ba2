//! Groups of dead letters, and what people think of them.

use std::time::Duration;

use bezoar_core::{
    Clock, FailureKind, Reason, Settlement,
    catalogue::{CatalogueError, CauseId, CauseState, Filter, Verb},
};

use super::ward::*;

#[tokio::test]
async fn what_failed_the_same_way_is_one_cause_and_the_largest_is_first() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "no patient 17").await;
    let connection = ward.kill_many("lab", 2, "connection to 10.0.0.1 refused").await;
    ward.kill("lab", message("d"), "connection to 10.0.0.2 refused").await;
    let causes = ward.store.causes(&Filter::default(), 10).await.unwrap();
    assert_eq!(causes.iter().map(|it| it.count).collect::<Vec<_>>(), [3, 1]);
    let first = &causes[0];
    assert_eq!(first.samples.last(), Some(&connection[0]));
    assert_eq!(first.samples.len(), 3);
    assert_eq!(first.title(), "boom (transient) of lab.result in lab");
    assert_eq!((first.ever, first.this_hour, first.last_hour), (3, 3, 0));
    let only = Filter { cause: Some(causes[1].id.clone()), ..Filter::default() };
    assert_eq!(ward.store.causes(&only, 10).await.unwrap(), causes[1..]);
    assert_eq!(ward.store.causes(&Filter::default(), 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_whose_workers_died_is_grouped_by_that_and_not_by_an_older_failure() {
    let ward = Ward::new().await;
    ward.send("lab", message("a")).await;
    let tries = vec![failed_try(FailureKind::Database, "db.down", "no connection")];
    ward.settle_all("lab", &Settlement::Retry { after: Duration::ZERO, tries }).await;
    let given_up = Settlement::DeadLetter { reason: Reason::max_deliveries(5), tries: Vec::new() };
    ward.settle_all("lab", &given_up).await;
    let entry = ward.latest().await;
    assert_eq!((entry.kind, entry.code), (FailureKind::Unknown, Reason::MAX_DELIVERIES));
}

#[tokio::test]
async fn hours_pass() {
    let ward = Ward::new().await;
    let now = async |ward: &Ward| {
        let cause = ward.store.causes(&Filter::default(), 1).await.unwrap().remove(0);
        (cause.this_hour, cause.last_hour, cause.ever)
    };
    let first = ward.clock.now();
    ward.kill_many("lab", 2, "boom").await;
    assert_eq!(now(&ward).await, (2, 0, 2));
    ward.clock.advance(Duration::from_secs(3_600));
    assert_eq!(now(&ward).await, (0, 2, 2));
    ward.kill("lab", message("c"), "boom").await;
    assert_eq!(now(&ward).await, (1, 2, 3));
    ward.clock.advance(Duration::from_secs(2 * 3_600));
    assert_eq!(now(&ward).await, (0, 0, 3));
    ward.kill("lab", message("d"), "boom").await;
    assert_eq!(now(&ward).await, (1, 0, 4));
    let cause = ward.store.causes(&Filter::default(), 1).await.unwrap().remove(0);
    assert_eq!((cause.first_seen, cause.last_seen), (first, ward.clock.now()));
}

#[tokio::test]
async fn a_resolved_cause_regresses_with_a_new_dead_letter_and_keeps_its_note() {
    let ward = Ward::new().await;
    let id = ward.kill("lab", message("a"), "boom").await;
    let cause = ward.latest().await.cause;
    let mark = async |state| {
        ward.store.mark(&cause, state, Some("mended the pump"), &act(Verb::Mark)).await
    };
    let marked = mark(CauseState::Resolved).await.unwrap();
    assert_eq!(marked.state, CauseState::Resolved);
    let note = ("mended the pump".to_owned(), "ann".to_owned(), ward.clock.now());
    assert_eq!(marked.note, Some(note.clone()));
    // An edited version is no new failure.
    let edited = ward.store.record(id).await.unwrap().message;
    ward.store.edit(id, edited, false, &act(Verb::Edit)).await.unwrap();
    let only = Filter { cause: Some(cause.clone()), ..Filter::default() };
    let now = ward.store.causes(&only, 1).await.unwrap().remove(0);
    assert_eq!((now.state, now.count, now.ever), (CauseState::Resolved, 2, 2));
    ward.kill("lab", message("b"), "boom").await;
    let now = ward.store.causes(&only, 1).await.unwrap().remove(0);
    assert_eq!((now.state, now.note), (CauseState::Regressed, Some(note)));
    assert_eq!(mark(CauseState::Acknowledged).await.unwrap().state, CauseState::Acknowledged);
    ward.kill("lab", message("c"), "boom").await;
    let now = ward.store.causes(&only, 1).await.unwrap().remove(0);
    assert_eq!(now.state, CauseState::Acknowledged);
}

#[tokio::test]
async fn a_cause_that_is_not_there_cannot_be_marked() {
    let ward = Ward::new().await;
    let missing = CauseId::new("v1:0123456789abcdef").unwrap();
    let refused = ward.store.mark(&missing, CauseState::Resolved, Some(""), &act(Verb::Mark)).await;
    assert!(matches!(refused, Err(CatalogueError::NoCause(id)) if id == missing));
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_audit"), 0);
}

#[tokio::test]
async fn causes_of_a_time_are_those_with_dead_letters_of_that_time() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "no doctor").await;
    ward.clock.advance(Duration::from_secs(9));
    let since = Some(ward.clock.now());
    ward.kill("lab", message("b"), "no patient").await;
    let found = ward.store.causes(&Filter { since, ..Filter::default() }, 9).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id, ward.latest().await.cause);
}

//! What only the database shows: rows that somebody changed or damaged, indexes, and leftover rows.

use std::{sync::Arc, time::Duration};

use bezoar_core::{
    Clock, DeadLetterAccess, DeadLetterIds, ManualClock, Settlement,
    catalogue::{Filter, OperationCommand, OperationKind, OperationState, Selection, Verb},
};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{census, ward::*};

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

#[tokio::test]
async fn a_dead_letter_that_somebody_removed_by_hand_is_left_out() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    ward.sql(&format!("DELETE FROM bezoar_dead WHERE id = {}", ids[1].number()));
    ward.command(id, OperationCommand::Run).await;
    let step = ward.advance(id, 9).await;
    assert_eq!((step.done, step.operation.total, step.operation.refused), (2, 2, 1));
    ward.settle_all("lab", &Settlement::Complete).await;
    assert_eq!(ward.operation(id).await.state, OperationState::Ended);
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
async fn what_only_served_expired_dead_letters_goes_with_them() {
    let ward = Ward::new().await;
    let elsewhere = Ward::new().await;
    let id = elsewhere.kill("lab", message("a"), "boom").await;
    let record = elsewhere.store.record(id).await.unwrap();
    ward.store.import(vec![("one".to_owned(), record)], &act(Verb::Import)).await.unwrap();
    ward.run(OperationKind::Discard, everything()).await;
    let flying = ward.kill("lab", message("b"), "other").await;
    let selection = Selection::Ids(vec![flying]);
    let flying = ward.run(replay(), selection).await.id;
    ward.command(flying, OperationCommand::Cancel).await;
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

/// Each filter uses its index: no query reads or sorts all rows.
#[tokio::test]
async fn the_ways_of_the_walk_use_their_indexes() {
    let ward = Ward::new().await;
    let connection = connection(&ward.path());
    for (condition, index) in [
        ("INDEXED BY bezoar_dead_by_cause WHERE cause = 1", "bezoar_dead_by_cause (cause=? AND "),
        (
            "INDEXED BY bezoar_dead_by_message WHERE message_id = 'a'",
            "bezoar_dead_by_message (message_id=? AND ",
        ),
        (
            "INDEXED BY bezoar_dead_by_correlation WHERE correlation_id = 'a'",
            "bezoar_dead_by_correlation (correlation_id=? AND ",
        ),
        ("INDEXED BY bezoar_dead_taken WHERE operation IS NOT NULL", "bezoar_dead_taken"),
        ("INDEXED BY bezoar_dead_replayed WHERE replayed > 0", "bezoar_dead_replayed"),
        (
            "INDEXED BY bezoar_dead_versions WHERE (edited_as IS NOT NULL OR unapproved = 1)",
            "bezoar_dead_versions",
        ),
        (
            "INDEXED BY bezoar_dead_late_by_death WHERE died_at < at",
            "bezoar_dead_late_by_death (died_at",
        ),
    ] {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM bezoar_dead {condition}
             AND died_at >= 1 AND (died_at, id) < (9, 9) ORDER BY died_at DESC, id DESC"
        );
        let mut plan = connection.prepare(&sql).unwrap();
        let steps: Vec<String> =
            plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(steps.len() == 1 && steps[0].contains(index), "{condition}: {steps:?}");
    }
}

#[tokio::test]
async fn arrivals_never_go_backwards_whichever_process_they_are_written_by() {
    let ahead = Ward::new().await;
    let clock = Arc::new(ManualClock::default());
    let options = Options { clock: clock.clone(), ..Options::new(ahead.path()) };
    let store = SqliteTransport::open(options).unwrap();
    let behind = Ward { store, clock, folder: tempfile::tempdir().unwrap() };
    ahead.clock.advance(Duration::from_secs(60));
    for (ward, name) in [(&behind, "a"), (&ahead, "b"), (&behind, "c")] {
        ward.kill("lab", message(name), "boom").await;
    }
    let listed = ahead.list(&Filter::default()).await;
    let of = |name: &str| listed.iter().find(|it| it.message_id.as_str() == name).unwrap();
    let (a, b, c) = (of("a"), of("b"), of("c"));
    assert!(a.arrived_at < b.arrived_at && b.arrived_at <= c.arrived_at, "in the order of ids");
    assert!(c.died_at < b.died_at, "each died when its own clock said");
    let names: Vec<_> = listed.iter().map(|it| it.message_id.as_str()).collect();
    assert_eq!(names, ["b", "c", "a"]);
}

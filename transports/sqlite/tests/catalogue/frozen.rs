//! What a plan takes, and what it does not.

use bezoar_core::{
    DeadLetterAccess, DeadLetterId, DeadLetterIds, QueueAdmin,
    catalogue::{
        CatalogueError, DeadLetterState, Filter, ItemState, OperationCommand, OperationKind,
        OperationPlan, OperationState, ReplayIds, Selection, Verb,
    },
};

use super::{census, ward::*};

#[tokio::test]
async fn what_dies_after_the_plan_does_not_join() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let planned = ward.plan(replay(), everything()).await;
    ward.kill("lab", message("late"), "boom").await;
    assert_eq!((planned.state, planned.total, planned.refused), (OperationState::Planned, 3, 0));
    assert_eq!(planned.queues, [(queue("lab"), 3)]);
    assert_eq!((planned.actor.as_str(), planned.reason.as_str()), ("ann", "a test"));
    let items = ward.items(planned.id).await;
    assert_eq!(items.iter().map(|item| item.dead_letter).collect::<Vec<_>>(), ids);
    assert_eq!(items.iter().map(|item| item.place).collect::<Vec<_>>(), [1, 2, 3]);
    ward.command(planned.id, OperationCommand::Run).await;
    assert_eq!(ward.advance(planned.id, 100).await.done, 3);
    assert_eq!(ward.list(&Filter::default()).await.len(), 1);
    census::check(&ward);
}

#[tokio::test]
async fn of_two_operators_at_once_one_gets_each_message() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 40, "boom").await;
    let plan = |kind| OperationPlan { kind, selection: everything(), expect: None };
    let (ann, bob) = (act_of("ann", Verb::Replay), act_of("bob", Verb::Discard));
    let (replays, discards) = (plan(replay()), plan(OperationKind::Discard));
    let (one, other) =
        tokio::join!(ward.store.plan(&replays, &ann), ward.store.plan(&discards, &bob));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one.total + other.total, 40);
    assert_eq!(one.refused.max(other.refused), 40, "the second is told of all that it cannot have");
    census::check(&ward);
}

#[tokio::test]
async fn a_message_that_is_taken_is_refused_to_others_until_the_operation_is_cancelled() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let first = ward.plan(replay(), Selection::Ids(vec![ids[0], ids[1], ids[0]])).await;
    assert_eq!(first.total, 2, "each once");
    let second = ward.plan(replay(), everything()).await;
    assert_eq!((second.total, second.refused), (1, 2));
    let third = ward.plan(OperationKind::Discard, Selection::Ids(ids.clone())).await;
    assert_eq!((third.total, third.refused), (0, 3));
    assert_eq!(ward.list(&Filter { state: Some("taken"), ..Filter::default() }).await.len(), 3);
    // The older ways pass over them.
    assert_eq!(ward.store.replay(&queue("lab"), &DeadLetterIds::All).await.unwrap(), 0);
    assert_eq!(ward.store.discard(&queue("lab"), &DeadLetterIds::All).await.unwrap(), 0);
    ward.command(first.id, OperationCommand::Cancel).await;
    assert_eq!(ward.list(&Filter { state: Some("open"), ..Filter::default() }).await.len(), 2);
    let items = ward.items(first.id).await;
    assert!(items.iter().all(|item| item.state == ItemState::Left));
    let fourth = ward.plan(OperationKind::Discard, everything()).await;
    assert_eq!((fourth.total, fourth.refused), (2, 1));
    assert_eq!(ward.latest().await.state, DeadLetterState::Taken(second.id));
    census::check(&ward);
}

#[tokio::test]
async fn the_older_ways_keep_the_counts_right() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 4, "boom").await;
    let lab = queue("lab");
    let one = |id| DeadLetterIds::Ids(vec![id]);
    assert_eq!(ward.store.replay(&lab, &one(ids[0])).await.unwrap(), 1);
    assert_eq!(ward.store.discard(&lab, &one(ids[1])).await.unwrap(), 1);
    assert_eq!(ward.store.count(&Filter::default()).await.unwrap().count, 2);
    let causes = ward.store.causes(&Filter::default(), 9).await.unwrap();
    assert_eq!((causes[0].count, causes[0].ever), (2, 4));
    census::check(&ward);
}

#[tokio::test]
async fn an_id_that_is_not_there_and_a_count_that_is_another_plan_nothing() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let plan = async |selection, expect| {
        let plan = OperationPlan { kind: replay(), selection, expect };
        ward.store.plan(&plan, &act(Verb::Replay)).await
    };
    let missing = plan(Selection::Ids(vec![ids[0], DeadLetterId(99)]), None).await.unwrap_err();
    assert!(matches!(missing, CatalogueError::NoDeadLetter(DeadLetterId(99))), "{missing}");
    for selection in [everything(), Selection::Ids(ids)] {
        let other = plan(selection.clone(), Some(2)).await.unwrap_err();
        assert!(matches!(other, CatalogueError::Unexpected { expected: 2, found: 3 }), "{other}");
    }
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_operations"), 0);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_items"), 0);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_audit"), 0);
    assert_eq!(plan(everything(), Some(3)).await.unwrap().total, 3);
}

#[tokio::test]
async fn a_rate_that_is_none_is_refused() {
    let ward = Ward::new().await;
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let kind = OperationKind::Replay {
            canary: 0,
            per_second: Some(rate),
            stop_after: None,
            ids: ReplayIds::Same,
        };
        let plan = OperationPlan { kind, selection: everything(), expect: None };
        assert!(ward.store.plan(&plan, &act(Verb::Replay)).await.is_err(), "{rate}");
    }
}

#[tokio::test]
async fn a_large_selection_is_frozen_piece_by_piece_and_whole() {
    let ward = Ward::new().await;
    many(&ward, 12_000);
    let planned = ward.plan(replay(), everything()).await;
    assert_eq!((planned.total, planned.refused), (12_000, 0));
    assert_eq!(ward.one("SELECT max(place) FROM bezoar_items"), 12_000);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_dead WHERE operation IS NULL"), 0);
    census::check(&ward);
}

#[tokio::test]
async fn a_large_plan_that_is_given_up_takes_nothing() {
    let ward = Ward::new().await;
    many(&ward, 12_000);
    // The last piece is refused: it holds an id that is not there.
    let ids: Vec<_> = (1..=12_001).map(DeadLetterId).collect();
    let plan = OperationPlan { kind: replay(), selection: Selection::Ids(ids), expect: None };
    let refused = ward.store.plan(&plan, &act(Verb::Replay)).await.unwrap_err();
    assert!(matches!(refused, CatalogueError::NoDeadLetter(DeadLetterId(12_001))), "{refused}");
    ward.store.provision(&queue("lab")).await.unwrap(); // whatever was in line is done
    assert_eq!(ward.store.operations(9).await.unwrap(), []);
    let again = ward.plan(replay(), everything()).await;
    assert_eq!((again.total, again.refused), (12_000, 0));
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_items"), 12_000, "what was left is swept");
    census::check(&ward);
}

#[tokio::test]
async fn a_large_plan_that_nobody_waits_for_takes_nothing() {
    let ward = Ward::new().await;
    many(&ward, 12_000);
    let plan = OperationPlan { kind: replay(), selection: everything(), expect: None };
    let it = act(Verb::Replay);
    for wait in [1, 5, 10, 20, 40] {
        let planning = ward.store.plan(&plan, &it);
        let planned = tokio::time::timeout(std::time::Duration::from_millis(wait), planning).await;
        if let Ok(planned) = planned {
            ward.command(planned.unwrap().id, OperationCommand::Cancel).await;
        }
    }
    // What was dropped may be in line yet, and takes itself back after it.
    for _ in 0..2 {
        ward.store.provision(&queue("lab")).await.unwrap();
    }
    let again = ward.plan(replay(), everything()).await;
    assert_eq!((again.total, again.refused), (12_000, 0));
    census::check(&ward);
}

#[tokio::test]
async fn what_a_process_that_died_was_freezing_is_free_after_a_minute() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 2, "boom").await;
    ward.plan(replay(), everything()).await;
    ward.sql("UPDATE bezoar_operations SET state = 'freezing'");
    assert_eq!(ward.store.operations(9).await.unwrap(), []);
    assert_eq!(ward.plan(replay(), everything()).await.refused, 2);
    ward.clock.advance(std::time::Duration::from_secs(61));
    assert_eq!(ward.plan(replay(), everything()).await.total, 2);
}

/// Dead letters by the thousand, written by hand.
fn many(ward: &Ward, count: usize) {
    ward.sql(&format!(
        "BEGIN;
         INSERT INTO bezoar_causes (id, version, queue, type, kind, code, count, ever, first_seen, last_seen)
         VALUES ('v1:0123456789abcdef', 1, 1, 'lab.result', 'unknown', 'boom', {count}, {count}, 0, 0);
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
         INSERT INTO bezoar_messages (id, type, time, body) SELECT 'm' || n, 'lab.result', 0, x'' FROM n;
         INSERT INTO bezoar_dead (queue, seq, reason_code, reason, at, acquired, failed, released, replayed,
                                  message_id, cause)
         SELECT 1, seq, 'exhausted', 'retries exhausted', 0, 0, 0, 0, 0, id, 1 FROM bezoar_messages;
         UPDATE bezoar_queues SET dead = {count} WHERE id = 1;
         COMMIT"
    ));
}

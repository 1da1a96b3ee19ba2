//! Selections of thousands of dead letters, frozen in pieces.

use bezoar_core::{
    DeadLetterAccess, DeadLetterId, DeadLetterIds, QueueAdmin,
    catalogue::{
        CatalogueError, Filter, HeldLetters, OperationCommand, OperationPlan, Selection, Verb,
    },
};

use super::{census, ward::*};

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
    // The last piece is refused, because it contains an unknown id.
    let ids: Vec<_> = (1..=12_001).map(DeadLetterId::from_number).collect();
    let plan = OperationPlan {
        kind: replay(),
        selection: Selection::Ids(ids),
        expect: None,
        held: HeldLetters::Skip,
        request: None,
    };
    let refused = ward.store.plan(&plan, &act(Verb::Replay)).await.unwrap_err();
    assert!(
        matches!(refused, CatalogueError::NoDeadLetter(id) if id.number() == 12_001),
        "{refused}"
    );
    ward.store.provision(&queue("lab")).await.unwrap(); // all queued jobs have run
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
    let plan = OperationPlan {
        kind: replay(),
        selection: everything(),
        expect: None,
        held: HeldLetters::Skip,
        request: None,
    };
    let it = act(Verb::Replay);
    for wait in [1, 5, 10, 20, 40] {
        let planning = ward.store.plan(&plan, &it);
        let planned = tokio::time::timeout(std::time::Duration::from_millis(wait), planning).await;
        if let Ok(planned) = planned {
            ward.command(planned.unwrap().id, OperationCommand::Cancel).await;
        }
    }
    // The dropped job may still be queued, and is undone only after it ran.
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

/// Inserts thousands of dead letters directly.
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

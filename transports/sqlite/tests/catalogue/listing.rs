//! Lists, filters and counts.

use std::time::Duration;

use bezoar_core::{
    Clock, Code, CorrelationId, DeadLetterId, FailureKind, MessageId, MessageType,
    catalogue::{CatalogueError, Count, DeadLetterState, Filter, ListRequest, Verb},
    millis,
};

use super::ward::*;

/// Four dead letters of three causes, a second apart.
async fn filled() -> (Ward, Vec<DeadLetterId>) {
    let ward = Ward::new().await;
    let mut ids = Vec::new();
    for (queue, message, how) in [
        ("lab", typed("a", "blood"), dead_by(FailureKind::Database, "db.down", "no connection")),
        ("lab", typed("b", "blood"), dead_by(FailureKind::Permanent, "bad", "no patient 17")),
        ("x-ray", typed("c", "image"), dead_by(FailureKind::Permanent, "bad", "no patient 18")),
        ("lab", typed("d", "blood"), dead_by(FailureKind::Permanent, "bad", "no patient 19")),
    ] {
        ward.send(queue, message).await;
        ward.settle_all(queue, &how).await;
        ids.push(ward.latest().await.id);
        ward.clock.advance(Duration::from_secs(1));
    }
    (ward, ids)
}

#[tokio::test]
async fn an_entry_says_what_happened_and_nothing_else() {
    let (ward, ids) = filled().await;
    let entry = ward.latest().await;
    assert_eq!(entry.id, ids[3]);
    assert_eq!((entry.queue.as_str(), entry.message_id.as_str()), ("lab", "d"));
    assert_eq!((entry.message_type.as_str(), entry.kind), ("blood", FailureKind::Permanent));
    assert_eq!((entry.code.as_str(), entry.reason.as_str()), ("bad", "retries exhausted"));
    assert_eq!((entry.attempts, entry.replayed), (1, 0));
    assert_eq!(entry.body_bytes, CANARY.len() as u64);
    assert_eq!(entry.at.as_millisecond(), ward.clock.now().as_millisecond() - 1_000);
    assert_eq!((entry.state, entry.edited_from), (DeadLetterState::Open, None));
    assert!(entry.cause.as_str().starts_with("v1:"));
}

#[tokio::test]
async fn every_filter_finds_what_fits_and_counts_it() {
    let (ward, ids) = filled().await;
    let now = ward.clock.now().as_millisecond();
    let at = |second: i64| Some(millis(now + (second - 4) * 1_000));
    let cause = ward.latest().await.cause;
    let none = Filter::default;
    for (filter, expected) in [
        (none(), vec![3, 2, 1, 0]),
        (Filter { queues: Some(vec![queue("lab")]), ..none() }, vec![3, 1, 0]),
        (Filter { queues: Some(vec![queue("lab"), queue("x-ray")]), ..none() }, vec![3, 2, 1, 0]),
        (Filter { queues: Some(vec![]), ..none() }, vec![]),
        (Filter { message_type: MessageType::new("image").ok(), ..none() }, vec![2]),
        (Filter { kind: Some(FailureKind::Permanent), ..none() }, vec![3, 2, 1]),
        (Filter { code: Code::new("db.down").ok(), ..none() }, vec![0]),
        (Filter { cause: Some(cause.clone()), ..none() }, vec![3, 1]),
        (Filter { correlation_id: CorrelationId::new("of b").ok(), ..none() }, vec![1]),
        (Filter { message_id: MessageId::new("c").ok(), ..none() }, vec![2]),
        (Filter { since: at(2), ..none() }, vec![3, 2]),
        (Filter { until: at(2), ..none() }, vec![1, 0]),
        (Filter { since: at(1), until: at(3), ..none() }, vec![2, 1]),
        (Filter { since: at(9), ..none() }, vec![]),
        (Filter { min_attempts: Some(1), ..none() }, vec![3, 2, 1, 0]),
        (Filter { min_attempts: Some(2), ..none() }, vec![]),
        (Filter { replayed: Some(false), ..none() }, vec![3, 2, 1, 0]),
        (Filter { replayed: Some(true), ..none() }, vec![]),
        (Filter { state: Some("open"), ..none() }, vec![3, 2, 1, 0]),
        (Filter { state: Some("taken"), ..none() }, vec![]),
        (
            Filter {
                cause: Some(cause),
                since: at(2),
                message_id: MessageId::new("d").ok(),
                ..none()
            },
            vec![3],
        ),
    ] {
        let found: Vec<_> = ward.list(&filter).await.iter().map(|entry| entry.id).collect();
        let expected: Vec<_> = expected.into_iter().map(|at: usize| ids[at]).collect();
        assert_eq!(found, expected, "{filter:?}");
        let count = Count { count: expected.len() as u64, exact: true };
        assert_eq!(ward.store.count(&filter).await.unwrap(), count, "{filter:?}");
    }
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat_while_new_ones_come() {
    let ward = Ward::new().await;
    let expected = ward.kill_many("lab", 25, "boom").await;
    for filter in [
        Filter::default(),
        Filter { queues: Some(vec![queue("lab"), queue("x-ray")]), ..Filter::default() },
        Filter { replayed: Some(false), ..Filter::default() },
    ] {
        let (mut seen, mut before) = (Vec::new(), Some(DeadLetterId(expected[24].0 + 1)));
        loop {
            let page = ward.store.list(&filter, &ListRequest { before, limit: 7 }).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            seen.extend(page.iter().map(|entry| entry.id));
            ward.kill("x-ray", message("newer"), "boom").await;
        }
        seen.reverse();
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_record_has_everything_by_id() {
    let (ward, ids) = filled().await;
    let record = ward.store.record(ids[1]).await.unwrap();
    assert_eq!(record.entry, ward.list(&Filter::default()).await[2]);
    assert_eq!(record.message.body.reveal().as_ref(), CANARY.as_bytes());
    assert_eq!(record.message.headers["name"].reveal(), CANARY);
    assert_eq!(record.message.ledger.last().unwrap().detail.reveal(), "no patient 17");
    assert_eq!(record.reason, reason());
    assert!(record.lineage.is_empty() && record.operations.is_empty());
    let missing = ward.store.record(DeadLetterId(999)).await.unwrap_err();
    assert!(matches!(missing, CatalogueError::NoDeadLetter(DeadLetterId(999))));
}

#[tokio::test]
async fn what_is_too_old_expires_in_pieces_and_what_is_taken_stays() {
    let (ward, ids) = filled().await;
    let taken = ward.plan(replay(), bezoar_core::catalogue::Selection::Ids(vec![ids[0]])).await;
    let before = ward.clock.now() - Duration::from_secs(1);
    let expire = async || ward.store.expire(before, 1, &act(Verb::Expire)).await;
    assert_eq!(expire().await.unwrap(), 1);
    assert_eq!(expire().await.unwrap(), 1);
    assert_eq!(expire().await.unwrap(), 0);
    let left: Vec<_> = ward.list(&Filter::default()).await.iter().map(|entry| entry.id).collect();
    assert_eq!(left, [ids[3], ids[0]]);
    assert_eq!(ward.list(&Filter::default()).await[1].state, DeadLetterState::Taken(taken.id));
    super::census::check(&ward);
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_audit WHERE verb = 'expire'"), 2);
}

/// The way to each of them: none reads or sorts all.
#[tokio::test]
async fn the_ways_of_the_walk_use_their_indexes() {
    let (ward, _) = filled().await;
    let connection = connection(&ward.path());
    for (condition, index) in [
        (
            "INDEXED BY bezoar_dead_by_cause WHERE cause = 1",
            "bezoar_dead_by_cause (cause=? AND rowid<?)",
        ),
        (
            "INDEXED BY bezoar_dead_by_message WHERE message_id = 'a'",
            "bezoar_dead_by_message (message_id=? AND rowid<?)",
        ),
        (
            "INDEXED BY bezoar_dead_by_correlation WHERE correlation_id = 'a'",
            "bezoar_dead_by_correlation (correlation_id=? AND rowid<?)",
        ),
        ("INDEXED BY bezoar_dead_taken WHERE operation IS NOT NULL", "bezoar_dead_taken"),
        ("INDEXED BY bezoar_dead_replayed WHERE replayed > 0", "bezoar_dead_replayed"),
        (
            "INDEXED BY bezoar_dead_versions WHERE (edited_as IS NOT NULL OR unapproved = 1)",
            "bezoar_dead_versions",
        ),
        ("NOT INDEXED WHERE true", "INTEGER PRIMARY KEY (rowid<?)"),
    ] {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM bezoar_dead {condition} AND id < 9 ORDER BY id DESC"
        );
        let mut plan = connection.prepare(&sql).unwrap();
        let steps: Vec<String> =
            plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(steps.len() == 1 && steps[0].contains(index), "{condition}: {steps:?}");
    }
}

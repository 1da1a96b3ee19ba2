//! Databases from versions without a catalogue.

use bezoar_core::{
    CorrelationId, FailureKind, QueueAdmin, Settlement,
    catalogue::{
        BrokerIntake as _, Count, DeadLetterCatalogue as _, Filter, ListRequest, RejectionFilter,
    },
};

use super::{census, ward::*};

/// A database of the first version with dead letters in it.
async fn old() -> Ward {
    let folder = tempfile::tempdir().unwrap();
    let old = connection(&folder.path().join("ward.db"));
    old.execute_batch(include_str!("../../migrations/0001.sql")).unwrap();
    old.execute_batch(
        "CREATE TABLE bezoar_meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
         INSERT INTO bezoar_meta VALUES ('schema', 1);
         INSERT INTO bezoar_queues VALUES (1, 'lab', 1, 3, 1000);
         INSERT INTO bezoar_messages VALUES
            (1, 'a', 'blood', 'of a', NULL, NULL, NULL, 1, x'00'),
            (2, 'b', 'blood', NULL, NULL, NULL, NULL, 1, x'0000'),
            (3, 'c', 'blood', NULL, NULL, NULL, NULL, 1, x''),
            (4, 'd', 'blood', NULL, NULL, NULL, NULL, 1, x'');
         INSERT INTO bezoar_waiting VALUES (1, 1000, 4, NULL, 0, 0, 0, 0, 0);
         INSERT INTO bezoar_attempts VALUES
            (1, 1, 0, 1, 1, 900, 3, 'database', 'db.down', 'no connection to 10.0.0.1'),
            (2, 1, 0, 1, 1, 900, 3, 'database', 'db.down', 'no connection to 10.0.0.2');
         INSERT INTO bezoar_dead VALUES
            (1, 1, 1, 'exhausted', 'retries exhausted', 910, 1, 1, 0, 0, 1),
            (2, 1, 2, 'exhausted', 'retries exhausted', 920, 1, 1, 0, 0, 1),
            (3, 1, 3, 'undecodable', 'Failed to deserialize message', 930, 1, 0, 0, 0, 0);",
    )
    .unwrap();
    drop(old);
    Ward::in_folder(folder).await
}

#[tokio::test]
async fn dead_letters_are_shown_at_once_and_grouped_piece_by_piece() {
    let ward = old().await;
    let before = ward.list(&Filter::default()).await;
    assert_eq!(before.iter().map(|entry| entry.id.number()).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!((before[2].kind, before[2].code.as_str()), (FailureKind::Database, "db.down"));
    assert_eq!(before[2].correlation_id.as_ref().unwrap().as_str(), "of a");
    let of_lab = Filter { queues: Some(vec![queue("lab")]), ..Filter::default() };
    let count = async |filter: &Filter| ward.store.count(filter).await.unwrap();
    assert_eq!(count(&Filter::default()).await, Count { count: 3, exact: true });
    assert_eq!(
        count(&of_lab).await,
        Count { count: 0, exact: false },
        "the count is marked as inexact"
    );
    for expected in [2, 1, 0] {
        assert_eq!(ward.store.regroup(2).await.unwrap(), expected);
    }
    assert_eq!(
        ward.list(&Filter::default()).await,
        before,
        "the causes are those that were shown before"
    );
    assert_eq!(count(&of_lab).await, Count { count: 3, exact: true });
    let causes = ward.store.causes(&Filter::default(), 9).await.unwrap();
    assert_eq!(causes.iter().map(|it| (it.count, it.ever)).collect::<Vec<_>>(), [(2, 2), (1, 1)]);
    assert_eq!(causes[0].first_seen.as_millisecond(), 910);
    assert_eq!(causes[0].last_seen.as_millisecond(), 920);
    census::check(&ward);
}

#[tokio::test]
async fn dead_letters_that_are_not_grouped_yet_can_be_worked_with() {
    let ward = old().await;
    let replayed = ward.run(replay(), everything()).await;
    assert_eq!((replayed.total, replayed.done), (3, 3));
    assert_eq!(ward.items(replayed.id).await[0].message_id.as_str(), "a");
    assert_eq!(ward.settle_all("lab", &Settlement::Complete).await, 4);
    assert_eq!(ward.store.depth(&queue("lab")).await.unwrap().dead, Some(0));
    census::check(&ward);
}

/// A database of schema 7 with these rows in it.
async fn schema_7(rows: &str) -> Ward {
    let folder = tempfile::tempdir().unwrap();
    let old = connection(&folder.path().join("ward.db"));
    let meta = "CREATE TABLE bezoar_meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
                INSERT INTO bezoar_meta VALUES ('schema', 7);";
    for script in [
        meta,
        include_str!("../../migrations/0001.sql"),
        include_str!("../../migrations/0002.sql"),
        include_str!("../../migrations/0003.sql"),
        include_str!("../../migrations/0004.sql"),
        include_str!("../../migrations/0005.sql"),
        include_str!("../../migrations/0006.sql"),
        include_str!("../../migrations/0007.sql"),
        rows,
    ] {
        old.execute_batch(script).unwrap();
    }
    drop(old);
    Ward::in_folder(folder).await
}

#[tokio::test]
async fn a_message_whose_checksum_did_not_cover_its_expiry_is_delivered() {
    let ward = schema_7(
        "INSERT INTO bezoar_queues (id, name, waiting) VALUES (1, 'lab', 1);
         INSERT INTO bezoar_messages (seq, id, type, time, body, checksum, expires_at) VALUES
             (1, 'a', 'blood', 1, x'', 7, 99999999999999);
         INSERT INTO bezoar_waiting VALUES (1, 1000, 1, NULL, 0, 0, 0, 0, 0);",
    )
    .await;
    assert_eq!(ward.receive("lab", 9).await.len(), 1);
}

#[tokio::test]
async fn dead_letters_whose_arrivals_went_backwards_are_all_listed() {
    let ward = schema_7(
        "INSERT INTO bezoar_queues (id, name, dead) VALUES (1, 'lab', 3);
         INSERT INTO bezoar_messages (seq, id, type, time, body) VALUES
             (1, 'a', 'blood', 1, x''), (2, 'b', 'blood', 1, x''), (3, 'c', 'blood', 1, x'');
         INSERT INTO bezoar_dead (id, queue, seq, reason_code, reason, at, acquired, failed, released, replayed, died_at)
             VALUES (1, 1, 1, 'x', 'x', 50, 1, 1, 0, 0, 50), (2, 1, 2, 'x', 'x', 100, 1, 1, 0, 0, 100),
                    (3, 1, 3, 'x', 'x', 60, 1, 1, 0, 0, 60);",
    )
    .await;
    let (mut page, mut found) = (ListRequest { after: None, limit: 1 }, Vec::new());
    while let Some(row) = ward.store.list(&Filter::default(), &page).await.unwrap().pop() {
        found.push(row.id.number());
        page.after = Some(row.position());
    }
    assert_eq!(found, [2, 3, 1]);
}

#[tokio::test]
async fn rejections_from_before_there_was_an_index_are_found_by_their_correlation_id() {
    let ward = schema_7(
        "INSERT INTO bezoar_queues (id, name, remote) VALUES (1, 'broker/results', 1);
         INSERT INTO bezoar_messages (seq, id, type, correlation_id, time, body) VALUES
             (1, 'a', 'blood', 'of a', 1, x''), (2, 'b', 'blood', NULL, 1, x'');
         INSERT INTO bezoar_announced VALUES
             (1, 'a', 1, 1000000000000, 'exhausted', 'retries exhausted', 1, 1, 0, 0, 0),
             (1, 'b', 2, 1000000000000, 'exhausted', 'retries exhausted', 1, 1, 0, 0, 0);",
    )
    .await;
    let correlation_id = CorrelationId::new("of a").ok();
    let filter = RejectionFilter { correlation_id, ..RejectionFilter::default() };
    let found = ward.store.rejections(&filter, 9).await.unwrap();
    assert_eq!(found.iter().map(|it| it.message_id.as_str()).collect::<Vec<_>>(), ["a"]);
    let all = ward.store.rejections(&RejectionFilter::default(), 9).await.unwrap();
    assert_eq!(all.iter().map(|it| it.message_id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
}

#[tokio::test]
async fn what_an_older_rule_has_grouped_is_grouped_anew() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 3, "boom").await;
    let cause = ward.latest().await.cause;
    ward.sql("UPDATE bezoar_causes SET version = 0, id = 'v0:0123456789abcdef'");
    assert_eq!(ward.latest().await.cause.as_str(), "v0:0123456789abcdef");
    for expected in [2, 1, 0] {
        assert_eq!(ward.store.regroup(2).await.unwrap(), expected);
    }
    assert_eq!(ward.latest().await.cause, cause);
    let causes = ward.store.causes(&Filter::default(), 9).await.unwrap();
    assert_eq!(causes.iter().map(|it| (it.count, it.ever)).collect::<Vec<_>>(), [(3, 3)]);
    census::check(&ward);
}

#[tokio::test]
async fn every_database_has_a_key_of_its_own_and_keeps_it() {
    let (one, other) = (Ward::new().await, Ward::new().await);
    let key = |ward: &Ward| -> Vec<u8> {
        let query = "SELECT value FROM bezoar_meta WHERE name = 'key'";
        connection(&ward.path()).query_row(query, [], |row| row.get(0)).unwrap()
    };
    let before = key(&one);
    assert_eq!(before.len(), 32);
    assert_ne!(before, key(&other));
    let Ward { store, folder, .. } = one;
    drop(store);
    assert_eq!(key(&Ward::in_folder(folder).await), before);
}

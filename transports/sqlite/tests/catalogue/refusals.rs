//! Actions that the database refuses midway: all of their changes are undone.

use bezoar_core::{
    QueueAdmin, Settlement, SubscribeOptions, Transport,
    catalogue::{
        CauseState, Filter, HeldLetters, OperationCommand, OperationKind, OperationPlan,
        OperationState, Verb,
    },
};

use super::{census, ward::*};

/// The whole content of the database as text.
fn contents(ward: &Ward) -> Vec<String> {
    let connection = connection(&ward.path());
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'bezoar%' ORDER BY name";
    let mut tables = connection.prepare(tables).unwrap();
    let names: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut all = Vec::new();
    for name in names {
        let mut rows = connection.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values = (0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap()));
            all.push(format!("{name}: {}", values.collect::<Vec<_>>().join(", ")));
        }
    }
    all
}

const NO_AUDIT: &str = "CREATE TRIGGER refuse BEFORE INSERT ON bezoar_audit
    BEGIN SELECT raise(ABORT, 'refused'); END";

#[tokio::test]
async fn an_act_that_cannot_be_written_to_the_log_does_not_happen() {
    let ward = Ward::new().await;
    let ids = ward.kill_many("lab", 3, "boom").await;
    let record = ward.store.record(ids[0]).await.unwrap();
    let cause = record.entry.cause.clone();
    let version = ward.store.edit(ids[1], record.message.clone(), true, &act(Verb::Edit)).await;
    let version = version.unwrap().id;
    let planned =
        ward.plan(replay(), bezoar_core::catalogue::Selection::Ids(vec![ids[2]])).await.id;
    ward.sql(NO_AUDIT);
    let before = contents(&ward);
    let (store, it) = (&ward.store, act_of("bob", Verb::Discard));
    let plan = OperationPlan {
        kind: OperationKind::Discard,
        selection: everything(),
        expect: None,
        held: HeldLetters::Skip,
        request: None,
    };
    let mut refused = vec![
        store.mark(&cause, CauseState::Resolved, Some(""), &it).await.is_err(),
        store.plan(&plan, &it).await.is_err(),
        store.command(planned, OperationCommand::Run, &it).await.is_err(),
        store.edit(ids[0], record.message.clone(), false, &it).await.is_err(),
        store.approve(version, &it).await.is_err(),
        store.import(vec![("one".to_owned(), record)], &it).await.is_err(),
        store.expire(jiff::Timestamp::MAX, 10, &it).await.is_err(),
        store.log(&it).await.is_err(),
        store.set("a", Some("b"), &it).await.is_err(),
    ];
    assert_eq!(refused.len(), 9);
    refused.dedup();
    assert_eq!(refused, [true]);
    assert_eq!(contents(&ward), before);
    ward.sql("DROP TRIGGER refuse");
    assert_eq!(ward.command(planned, OperationCommand::Run).await.state, OperationState::Running);
    census::check(&ward);
}

#[tokio::test]
async fn a_step_that_is_refused_half_way_sends_nothing_and_is_done_once_later() {
    for (table, rows) in [("bezoar_waiting", "new.seq > 2"), ("bezoar_items", "new.place > 2")] {
        let ward = Ward::new().await;
        ward.kill_many("lab", 4, "boom").await;
        let id = ward.plan(replay(), everything()).await.id;
        ward.command(id, OperationCommand::Run).await;
        let before = contents(&ward);
        let event = if table == "bezoar_items" { "UPDATE" } else { "INSERT" };
        ward.sql(&format!(
            "CREATE TRIGGER refuse BEFORE {event} ON {table} WHEN {rows}
             BEGIN SELECT raise(ABORT, 'refused'); END"
        ));
        assert!(ward.store.advance(id, 10).await.is_err());
        assert_eq!(contents(&ward), before, "{table}");
        ward.sql("DROP TRIGGER refuse");
        assert_eq!(ward.advance(id, 10).await.done, 4);
        assert_eq!(ward.settle_all("lab", &Settlement::Complete).await, 4);
        census::check(&ward);
    }
}

/// A deferred constraint is checked only by the commit itself.
#[tokio::test]
async fn a_commit_that_fails_undoes_the_step() {
    let ward = Ward::new().await;
    ward.kill_many("lab", 4, "boom").await;
    let id = ward.plan(replay(), everything()).await.id;
    ward.command(id, OperationCommand::Run).await;
    let before = contents(&ward);
    ward.sql(
        "CREATE TABLE rule (dead INTEGER REFERENCES bezoar_dead (id) DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO rule SELECT max(id) FROM bezoar_dead",
    );
    assert!(ward.store.advance(id, 10).await.is_err());
    assert_eq!(contents(&ward), before);
    ward.sql("DROP TABLE rule");
    assert_eq!(ward.advance(id, 10).await.done, 4);
    census::check(&ward);
}

#[tokio::test]
async fn a_settlement_that_is_refused_leaves_the_outcome_open() {
    let ward = Ward::new().await;
    ward.kill("lab", message("a"), "boom").await;
    let id = ward.run(replay(), everything()).await.id;
    ward.sql(
        "CREATE TRIGGER refuse BEFORE UPDATE ON bezoar_operations
         BEGIN SELECT raise(ABORT, 'refused'); END",
    );
    let held = ward.receive("lab", 1).await;
    let options = SubscribeOptions::default();
    let open = ward.store.subscribe(&queue("lab"), options).await.unwrap();
    let batch = held.into_iter().map(|held| (held, Settlement::Complete)).collect();
    assert!(open.settle(batch).await[0].is_err());
    ward.sql("DROP TRIGGER refuse");
    let now = ward.operation(id).await;
    assert_eq!((now.completed, now.in_flight()), (0, 1));
    assert_eq!(ward.store.depth(&queue("lab")).await.unwrap().leased, Some(1));
    assert_eq!(ward.list(&Filter::default()).await.len(), 0);
    census::check(&ward);
}

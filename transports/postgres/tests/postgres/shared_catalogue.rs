//! Several gateways over one catalogue at the same time.

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{
    FailedTry, Failure, FailureKind, Reason, Settlement, SubscribeOptions, Transport,
    catalogue::{
        AuditHead, AuditLog, AuditedAction, DeadLetterCatalogue, Filter, HeldLetters,
        OperationCommand, OperationKind, OperationPlan, OperationState, Operations, ReplayIds,
        Selection, Verb,
    },
    millis,
};
use bezoar_postgres::PostgresTransport;
use sqlx::{Connection, PgConnection, Row};
use test_support::postgres::Postgres;
use tokio::{task::JoinSet, time::timeout};

use crate::{PATIENCE, execute, message, opened, options, queue, send};

fn action(actor: &str) -> AuditedAction {
    AuditedAction {
        actor: actor.to_owned(),
        address: String::new(),
        verb: Verb::Replay,
        target: "it".to_owned(),
        reason: "a test".to_owned(),
    }
}

fn dead(detail: &str) -> Settlement {
    let failure = Failure::new(FailureKind::Transient, detail);
    let tries = vec![FailedTry::new(millis(1_000), Duration::ZERO, &failure)];
    Settlement::DeadLetter { reason: Reason::new(Reason::EXHAUSTED, "exhausted"), tries }
}

/// Settles everything that is ready, a few at a time, and returns how many there were.
async fn settle_all(store: &PostgresTransport, how: &Settlement) -> usize {
    let (few, mut settled) = (NonZeroU32::new(7).unwrap(), 0);
    let open = store.subscribe(&queue(), SubscribeOptions::default()).await.unwrap();
    loop {
        let held = open.receive(few, Duration::ZERO).await.unwrap();
        if held.is_empty() {
            return settled;
        }
        settled += held.len();
        let batch = held.into_iter().map(|held| (held, how.clone())).collect();
        assert!(open.settle(batch).await.iter().all(Result::is_ok));
    }
}

async fn gateways(server: &Postgres, count: usize) -> Vec<PostgresTransport> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(opened(options(&server.url())).await);
    }
    all
}

async fn count(store: &PostgresTransport) -> u64 {
    store.count(&Filter::default()).await.unwrap().count
}

/// Follows the whole audit log, and returns how many entries it has.
async fn verified(store: &PostgresTransport) -> u64 {
    let mut head = AuditHead::START;
    loop {
        let (entries, kept) = store.audit(head.count, 100).await.unwrap();
        if entries.is_empty() {
            head.ends_at(&kept).unwrap();
            return head.count;
        }
        head = entries.iter().try_fold(head, |head, entry| head.follow(entry)).unwrap();
    }
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn several_gateways_write_one_audit_chain() {
    let server = Postgres::start().unwrap();
    let mut writing = JoinSet::new();
    for (number, store) in gateways(&server, 4).await.into_iter().enumerate() {
        writing.spawn(async move {
            for _ in 0..25 {
                store.log(&action(&format!("gateway {number}"))).await.unwrap();
            }
        });
    }
    writing.join_all().await;
    let store = opened(options(&server.url())).await;
    assert_eq!(verified(&store).await, 100);
    // The control: an entry that was changed by hand breaks the chain.
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut by_hand, "UPDATE bezoar.audit SET why = 'other' WHERE number = 50").await;
    let (entries, _) = store.audit(48, 5).await.unwrap();
    let head = AuditHead { count: 49, hash: entries[0].hash };
    assert!(head.follow(&entries[1]).is_err());
}

/// Four gateways dead-letter, replay and complete the same messages: every count adds up, and nothing deadlocks.
#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn counts_add_up_whoever_changes_them() {
    const MESSAGES: usize = 400;
    let server = Postgres::start().unwrap();
    let gateways = gateways(&server, 4).await;
    for number in 0..MESSAGES {
        send(&gateways[0], message(&format!("m-{number}"))).await.unwrap();
    }
    let mut dying = JoinSet::new();
    for (number, store) in gateways.iter().cloned().enumerate() {
        // Two causes, which all of them add to.
        let how = dead(["no connection", "no patient"][number % 2]);
        dying.spawn(async move { settle_all(&store, &how).await });
    }
    assert_eq!(dying.join_all().await.into_iter().sum::<usize>(), MESSAGES);
    assert_eq!(count(&gateways[0]).await, MESSAGES as u64);
    let plan = OperationPlan {
        kind: OperationKind::Replay {
            canary: 0,
            per_second: None,
            stop_after: None,
            ids: ReplayIds::Same,
        },
        selection: Selection::Matching(Filter::default()),
        expect: Some(MESSAGES as u64),
        held: HeldLetters::Refuse,
        request: None,
    };
    let replay = Operations::plan(&gateways[0], &plan, &action("ann")).await.unwrap().id;
    gateways[1].command(replay, OperationCommand::Run, &action("bob")).await.unwrap();
    let mut replaying = JoinSet::new();
    for store in &gateways {
        let store = store.clone();
        replaying.spawn(async move {
            let mut done = 0;
            while let step = store.advance(replay, 9).await.unwrap().done
                && step > 0
            {
                done += step as usize;
                settle_all(&store, &Settlement::Complete).await;
            }
            settle_all(&store, &Settlement::Complete).await;
            done
        });
    }
    let done = timeout(PATIENCE, replaying.join_all()).await.unwrap();
    assert_eq!(done.into_iter().sum::<usize>(), MESSAGES, "each is sent once");
    let now = gateways[2].operation(replay).await.unwrap();
    assert_eq!((now.state, now.completed, now.failed), (OperationState::Ended, MESSAGES as u64, 0));
    assert_eq!(count(&gateways[3]).await, 0);
    let causes = gateways[3].causes(&Filter::default(), 9).await.unwrap();
    assert_eq!(causes, [], "no cause has a dead letter left");
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    let ever = "SELECT sum(ever)::bigint FROM bezoar.cause_totals";
    let ever = sqlx::raw_sql(ever).fetch_one(&mut by_hand).await.unwrap();
    assert_eq!(ever.get::<i64, _>(0), MESSAGES as i64);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'";
    let deadlocks = sqlx::raw_sql(deadlocks).fetch_one(&mut by_hand).await.unwrap();
    assert_eq!(deadlocks.get::<i64, _>(0), 0);
    let (waiting, unadded) = ("outcomes", "cause_changes");
    for table in [waiting, unadded] {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM bezoar.{table}"));
        let rows = sqlx::raw_sql(sql).fetch_one(&mut by_hand).await.unwrap();
        assert!(rows.get::<i64, _>(0) < 300, "{table} is added up from time to time");
    }
}

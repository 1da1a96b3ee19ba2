//! Measures how long operators wait, and what dead-lettering costs. Small by default; for a large
//! run:
//!
//! ```sh
//! BEZOAR_DEAD=1000000 BEZOAR_CAUSES=10000 cargo test --release -p bezoar-sqlite --test catalogue_size -- --nocapture --test-threads=1
//! ```

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

use std::{
    num::NonZeroU32,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use bezoar_core::{
    Code, CorrelationId, DeadLetterId, Delivery, FailedTry, Failure, FailureKind, Message,
    MessageId, MessageType, Outgoing, QueueAdmin, QueueName, Reason, Settlement, SubscribeOptions,
    Transport,
    catalogue::{
        AuditedAction, CauseId, DeadLetterCatalogue, Filter, HeldLetters, ListPosition,
        ListRequest, OperationCommand, OperationKind, OperationPlan, Operations, ReplayIds,
        Selection, Verb,
    },
    millis,
};
use bezoar_sqlite::{Options, SqliteTransport};
use rusqlite::Connection;
use tokio::task::JoinSet;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn act() -> AuditedAction {
    let text = str::to_owned;
    AuditedAction {
        actor: text("ann"),
        address: text("here"),
        verb: Verb::Replay,
        target: text("it"),
        reason: text("a test"),
    }
}

async fn timed<T>(what: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let result = work.await;
    println!("{what:<44} {:>9.2} ms", start.elapsed().as_secs_f64() * 1_000.0);
    result
}

/// Dead letters of as many causes, written by hand: a kilobyte each, ten queues, every cause over the whole time
/// but for the first hundred, which are the oldest only. Every other one arrived half a second after its death, as those of
/// a broker do.
fn fill(path: &Path, dead: u64, causes: u64) {
    let connection = Connection::open(path).unwrap();
    let sql = format!(
        "BEGIN;
         CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {dead})
             SELECT n, CASE WHEN n <= {dead} / 50 THEN 1 + n % 100 ELSE 1 + (n * 7919) % {causes} END AS cause FROM n;
         INSERT INTO bezoar_causes (id, version, queue, type, kind, code, attempts, first_seen, last_seen)
             WITH RECURSIVE c(c) AS (SELECT 1 UNION ALL SELECT c + 1 FROM c WHERE c < {causes})
             SELECT printf('v1:%016x', c), 1, 1 + c % 10, 'type' || (c % 50),
                    CASE c % 3 WHEN 0 THEN 'permanent' WHEN 1 THEN 'database' ELSE 'transient' END,
                    'code' || (c % 100), 4, 0, 0 FROM c;
         INSERT INTO bezoar_messages (id, type, correlation_id, time, body)
             SELECT printf('01900000-0000-7000-8000-%012x', n), 'type' || (cause % 50), 'order-' || (n / 3), 0,
                    randomblob(1024) FROM n;
         INSERT INTO bezoar_dead (queue, seq, reason_code, reason, at, acquired, failed, released, replayed, message_id,
                                  correlation_id, cause, died_at)
             SELECT 1 + cause % 10, n, 'exhausted', 'retries exhausted after 4 attempts', n, 4, 4, 0, 0,
                    printf('01900000-0000-7000-8000-%012x', n), 'order-' || (n / 3), cause, n - (n % 2) * 500 FROM n ORDER BY n;
         UPDATE bezoar_causes SET count = (SELECT count(*) FROM bezoar_dead WHERE cause = number);
         UPDATE bezoar_causes SET ever = count;
         UPDATE bezoar_queues SET dead = (SELECT count(*) FROM bezoar_dead WHERE queue = bezoar_queues.id);
         COMMIT;"
    );
    connection.execute_batch(&sql).unwrap();
}

async fn open(path: &Path) -> SqliteTransport {
    let store = SqliteTransport::open(Options::new(path)).unwrap();
    for name in 1..=10 {
        store.provision(&QueueName::new(format!("queue{name}")).unwrap()).await.unwrap();
    }
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_do_not_wait_for_large_catalogues() {
    let (dead, causes) = (number("BEZOAR_DEAD", 5_000), number("BEZOAR_CAUSES", 200));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.db");
    let store = open(&path).await;
    drop(store);
    fill(&path, dead, causes);
    let store = open(&path).await;
    println!("{dead} dead letters of {causes} causes");
    for (what, filter) in filters(dead) {
        let page = ListRequest { after: None, limit: 100 };
        let listed = timed(&format!("list {what}"), store.list(&filter, &page)).await.unwrap();
        let counted = timed(&format!("count {what}"), store.count(&filter)).await.unwrap();
        println!(
            "    {} listed, {} counted, exact: {}",
            listed.len(),
            counted.count,
            counted.exact
        );
        assert!(counted.count >= listed.len() as u64, "{what}");
        let found = timed(&format!("causes {what}"), store.causes(&filter, 50)).await.unwrap();
        assert_eq!(found.is_empty(), listed.is_empty(), "{what}");
    }
    let middle = ListRequest {
        after: Some(ListPosition {
            died_at: millis(dead as i64 / 2),
            id: DeadLetterId::from_number(dead as i64 / 2),
        }),
        limit: 100,
    };
    timed("list from the middle", store.list(&Filter::default(), &middle)).await.unwrap();
    timed("record", store.record(DeadLetterId::from_number(dead as i64 / 3))).await.unwrap();
    operate(&store, dead).await;
}

fn filters(dead: u64) -> Vec<(&'static str, Filter)> {
    let none = Filter::default;
    let cause = |number: u64| CauseId::new(format!("v1:{number:016x}")).ok();
    vec![
        ("everything", none()),
        (
            "one queue (1,000 causes)",
            Filter { queues: QueueName::new("queue3").ok().map(|it| vec![it]), ..none() },
        ),
        ("one type", Filter { message_type: MessageType::new("type7").ok(), ..none() }),
        ("one kind (a third)", Filter { kind: Some(FailureKind::Permanent), ..none() }),
        ("one code", Filter { code: Code::new("code7").ok(), ..none() }),
        ("one cause", Filter { cause: cause(150), ..none() }),
        ("one old cause", Filter { cause: cause(50), ..none() }),
        (
            "a correlation id",
            Filter { correlation_id: CorrelationId::new("order-77").ok(), ..none() },
        ),
        (
            "a message id",
            Filter {
                message_id: MessageId::new("01900000-0000-7000-8000-0000000001f4").ok(),
                ..none()
            },
        ),
        ("the last hundredth", Filter { since: Some(millis(dead as i64 * 99 / 100)), ..none() }),
        ("the first half", Filter { until: Some(millis(dead as i64 / 2)), ..none() }),
        ("at least 3 attempts", Filter { min_attempts: Some(3), ..none() }),
        ("at least 5 attempts (none)", Filter { min_attempts: Some(5), ..none() }),
        ("replayed (none)", Filter { replayed: Some(true), ..none() }),
        ("never replayed", Filter { replayed: Some(false), ..none() }),
        ("held (none)", Filter { state: Some("held"), ..none() }),
        ("open", Filter { state: Some("open"), ..none() }),
        (
            "a queue, a kind, a time",
            Filter {
                queues: QueueName::new("queue3").ok().map(|it| vec![it]),
                kind: Some(FailureKind::Database),
                since: Some(millis(dead as i64 / 2)),
                ..none()
            },
        ),
    ]
}

/// Plans an operation on everything while messages are sent.
async fn operate(store: &SqliteTransport, dead: u64) {
    let kind = OperationKind::Replay {
        canary: 0,
        per_second: None,
        stop_after: None,
        ids: ReplayIds::Same,
    };
    let plan = |selection| OperationPlan {
        kind,
        selection,
        expect: None,
        held: HeldLetters::Skip,
        request: None,
    };
    let few = plan(Selection::Ids((1..=100).map(DeadLetterId::from_number).collect()));
    timed("plan 100", store.plan(&few, &act())).await.unwrap();
    let all = plan(Selection::Matching(Filter::default()));
    let who = act();
    let planning = timed("plan everything", store.plan(&all, &who));
    let longest = AtomicU64::new(0);
    let planned = tokio::select! {
        never = send_on_and_on(store, &longest) => never,
        planned = planning => planned.unwrap(),
    };
    let longest = longest.into_inner() as f64 / 1_000.0;
    println!("    the longest that a sender waited meanwhile: {longest:.1} ms");
    assert_eq!((planned.total, planned.refused), (dead - 100, 100));
    let page = ListRequest { after: None, limit: 100 };
    for state in ["held", "open"] {
        let filter = Filter { state: Some(state), ..Filter::default() };
        timed(&format!("list {state} (all are held)"), store.list(&filter, &page)).await.unwrap();
    }
    store.command(planned.id, OperationCommand::Run, &act()).await.unwrap();
    let step = timed("advance by 1,000", store.advance(planned.id, 1_000)).await.unwrap();
    assert_eq!(step.done, 1_000);
    timed("cancel", store.command(planned.id, OperationCommand::Cancel, &act())).await.unwrap();
}

/// Sends one message after the other and returns how long the slowest took.
async fn send_on_and_on(store: &SqliteTransport, longest: &AtomicU64) -> ! {
    let to = QueueName::new("queue1").unwrap().into();
    loop {
        let start = Instant::now();
        for result in store.send(&to, &[outgoing(0)]).await {
            result.unwrap();
        }
        longest.fetch_max(start.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

fn outgoing(number: usize) -> Outgoing {
    let id = MessageId::new(format!("m-{number}")).unwrap();
    Message::new(id, MessageType::new("lab.result").unwrap(), millis(0), vec![7; 1_024]).into()
}

/// Dead-lettering costs less than twice as much as completing.
#[tokio::test(flavor = "multi_thread")]
async fn dead_lettering_is_not_much_slower_than_completing() {
    let messages = number("BEZOAR_MESSAGES", 2_000) as usize;
    let spread = number("BEZOAR_SPREAD", 10) as usize; // how many causes there are at once
    let dead = |number: usize| {
        let code = Code::new(format!("code{}", number % spread)).unwrap();
        let text = format!("connection to 10.0.0.{number} was refused by the server");
        let failure = Failure::transient(text).with_code(code);
        let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &failure)];
        let reason = Reason::new(Reason::EXHAUSTED, "retries exhausted after 4 attempts");
        Settlement::DeadLetter { reason, tries }
    };
    // Alternates and takes the best of each, because the machine may be busy.
    let (mut completed, mut died) = (0.0_f64, 0.0_f64);
    for _ in 0..number("BEZOAR_ROUNDS", 1) {
        completed = completed.max(rate(messages, |_| Settlement::Complete).await);
        died = died.max(rate(messages, dead).await);
    }
    println!("complete {completed:.0}/s, dead-letter {died:.0}/s: {:.2}", died / completed);
}

/// How many messages per second are settled this way, by eight tasks in batches of 50.
async fn rate(messages: usize, how: impl Fn(usize) -> Settlement) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("rate.db")).await;
    let queue = QueueName::new("queue1").unwrap();
    let batch: Vec<_> = (0..messages).map(outgoing).collect();
    for part in batch.chunks(5_000) {
        store.send(&(&queue).into(), part).await.into_iter().map(Result::unwrap).for_each(drop);
    }
    let options = SubscribeOptions::default().with_lease(Duration::from_secs(600));
    let open = store.subscribe(&queue, options).await.unwrap();
    let mut held: Vec<Vec<(Delivery, Settlement)>> = Vec::new();
    for first in (0..messages).step_by(50) {
        let some = open.receive(NonZeroU32::new(50).unwrap(), Duration::ZERO).await.unwrap();
        held.push(some.into_iter().enumerate().map(|(at, one)| (one, how(first + at))).collect());
    }
    let mut lanes: Vec<Vec<_>> = (0..8).map(|_| Vec::new()).collect();
    for (place, batch) in held.into_iter().enumerate() {
        lanes[place % 8].push(batch);
    }
    let start = Instant::now();
    let mut all = JoinSet::new();
    for lane in lanes {
        let open = store.subscribe(&queue, options).await.unwrap();
        all.spawn(async move {
            for batch in lane {
                open.settle(batch).await.into_iter().for_each(|settled| settled.unwrap());
            }
        });
    }
    all.join_all().await;
    messages as f64 / start.elapsed().as_secs_f64()
}

//! One leader among processes that share a database: who takes over, how soon, and what an earlier leader can still do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bezoar_core::catalogue::{AuditLog, AuditedAction, CatalogueError, Settings, Verb};
use bezoar_postgres::{Leader, PostgresTransport};
use sqlx::{Connection, PgConnection, Row};
use test_support::{postgres::Postgres, tcp_proxy::TcpProxy};
use tokio::time::timeout;

use crate::{PATIENCE, execute, opened, options, somebody_waits};

/// Within which time another one has to lead.
const TAKEOVER: Duration = Duration::from_secs(5);

fn action() -> AuditedAction {
    AuditedAction {
        actor: "ann".to_owned(),
        address: String::new(),
        verb: Verb::Expire,
        target: "it".to_owned(),
        reason: "a test".to_owned(),
    }
}

/// Something that only the leader may do.
async fn act(store: &PostgresTransport) -> Result<(), CatalogueError> {
    store.set("led", Some("by me"), &action()).await
}

async fn elected(store: &PostgresTransport) -> Leader {
    let leader = store.elect("replays");
    timeout(PATIENCE, leader.elected()).await.unwrap();
    leader
}

/// Waits until a candidate leads, and checks how long that took.
async fn takes_over(candidate: &Leader, since: Instant) {
    timeout(PATIENCE, candidate.elected()).await.unwrap();
    assert!(since.elapsed() < TAKEOVER, "took {:?}", since.elapsed());
}

async fn is_refused(store: &PostgresTransport) {
    let refused = act(store).await;
    assert!(matches!(refused, Err(CatalogueError::NotLeading)), "{refused:?}");
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn only_one_leads_and_only_the_leader_acts() {
    let server = Postgres::start().unwrap();
    let (one, other) = (opened(options(&server.url())).await, opened(options(&server.url())).await);
    let first = elected(&one).await;
    let second = other.elect("replays");
    act(&first.store()).await.unwrap();
    is_refused(&second.store()).await;
    assert!(!second.leads() && second.store_of_term().is_none());
    assert_eq!(second.store().setting("led").await.unwrap().as_deref(), Some("by me"));
    let elsewhere = other.elect("another role");
    timeout(PATIENCE, elsewhere.elected()).await.unwrap();
    let since = Instant::now();
    first.resign().await;
    takes_over(&second, since).await;
    act(&second.store()).await.unwrap();
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_leader_that_lost_its_connections_goes_on() {
    let server = Postgres::start().unwrap();
    let (one, other) = (opened(options(&server.url())).await, opened(options(&server.url())).await);
    let first = elected(&one).await;
    let term = first.store_of_term().unwrap();
    let _second = other.elect("replays");
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    for _ in 0..3 {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let ended = sqlx::raw_sql(ended).fetch_one(&mut by_hand).await.unwrap();
        assert!(ended.get::<i64, _>(0) > 0);
        // An act may find a connection that was ended.
        let acts = async {
            while let Err(error) = act(&term).await {
                assert!(matches!(error, CatalogueError::Store(_)), "{error}");
            }
        };
        timeout(PATIENCE, acts).await.unwrap();
    }
    assert!(first.leads(), "it has renewed its lease in time");
}

/// A leader behind a proxy, and another candidate beside it.
struct Pair {
    server: Postgres,
    proxy: TcpProxy,
    first: Leader,
    second: Leader,
}

impl Pair {
    async fn start(proxy: impl Fn(String) -> TcpProxy) -> Self {
        let server = Postgres::start().unwrap();
        let proxy = proxy(format!("127.0.0.1:{}", server.port()));
        let far = opened(options(&server.url_through(proxy.address().port()))).await;
        let first = elected(&far).await;
        let second = opened(options(&server.url())).await.elect("replays");
        Self { server, proxy, first, second }
    }
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn another_takes_over_when_the_leader_is_cut_off() {
    let pair = Pair::start(|server| TcpProxy::to(server).unwrap()).await;
    act(&pair.first.store()).await.unwrap();
    let since = Instant::now();
    drop(pair.proxy);
    takes_over(&pair.second, since).await;
    act(&pair.second.store()).await.unwrap();
    timeout(PATIENCE, pair.first.lost()).await.unwrap();
    is_refused(&pair.first.store()).await;
}

/// The worst moment: the leader has begun an act, and then nothing of it arrives any more, which the server cannot
/// notice.
#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn another_takes_over_when_the_leader_falls_silent_in_the_middle_of_an_act() {
    let flag = || Arc::new(AtomicBool::new(false));
    let [armed, silent, over] = [flag(), flag(), flag()];
    let flags = [armed.clone(), silent.clone(), over.clone()];
    let pair = Pair::start(move |server| {
        let [armed, silent, over] = flags.clone();
        let filter = move |_, bytes: &mut [u8]| {
            // The last step of an act, in the transaction that has renewed the lease.
            let acts = bytes.windows(10).any(|it| it == b"audit_head");
            if acts && armed.load(Ordering::SeqCst) {
                silent.store(true, Ordering::SeqCst);
            }
            while silent.load(Ordering::SeqCst) && !over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
        };
        TcpProxy::with_upload_filter(server, filter).unwrap()
    })
    .await;
    armed.store(true, Ordering::SeqCst);
    let store = pair.first.store();
    let acting = tokio::spawn(async move { act(&store).await });
    eventually(|| silent.load(Ordering::SeqCst)).await;
    takes_over(&pair.second, Instant::now()).await;
    act(&pair.second.store()).await.unwrap();
    over.store(true, Ordering::SeqCst);
    let late = timeout(PATIENCE, acting).await.unwrap().unwrap();
    assert!(late.is_err(), "its transaction was ended: {late:?}");
    let near = opened(options(&pair.server.url())).await;
    assert_eq!(near.audit(0, 10).await.unwrap().0.len(), 1, "only the second has acted");
    drop(pair.proxy);
}

/// As above, while the server itself waits for somebody's lock, and so does not look at the connection.
#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn another_takes_over_when_the_act_of_the_leader_waits_for_a_lock() {
    let pair = Pair::start(|server| TcpProxy::to(server).unwrap()).await;
    let mut other = PgConnection::connect(&pair.server.url()).await.unwrap();
    execute(&mut other, "BEGIN; SELECT * FROM bezoar.audit_head FOR UPDATE").await;
    let store = pair.first.store();
    let acting = tokio::spawn(async move { act(&store).await });
    somebody_waits(&mut other).await;
    let since = Instant::now();
    drop(pair.proxy);
    takes_over(&pair.second, since).await;
    execute(&mut other, "COMMIT").await;
    assert!(timeout(PATIENCE, acting).await.unwrap().unwrap().is_err());
    act(&pair.second.store()).await.unwrap();
    assert_eq!(
        pair.second.store().audit(0, 10).await.unwrap().0.len(),
        1,
        "only the second has acted"
    );
}

async fn eventually(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

/// A leader that was paused, as a virtual machine may be, still believes that it leads.
#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn an_act_of_an_earlier_leader_is_refused() {
    let server = Postgres::start().unwrap();
    let (one, other) = (opened(options(&server.url())).await, opened(options(&server.url())).await);
    let first = elected(&one).await;
    let earlier = first.store_of_term().unwrap();
    act(&earlier).await.unwrap();
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    first.resign().await;
    let second = elected(&other).await;
    is_refused(&earlier).await;
    assert_eq!(earlier.audit(0, 10).await.unwrap().0.len(), 1, "not even its entry is written");
    // The control: the same act without a number is not refused, so it is the number that refuses it.
    act(&one).await.unwrap();
    // An expired lease is refused as well, before anybody else has taken it.
    let term = second.store_of_term().unwrap();
    execute(&mut by_hand, "UPDATE bezoar.leaders SET until = 0, number = number + 1").await;
    is_refused(&term).await;
}

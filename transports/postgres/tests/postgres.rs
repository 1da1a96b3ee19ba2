//! What only a real PostgreSQL server can show: lost answers, crashes, roles, rows changed by hand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "postgres/leader.rs"]
mod leader;
#[path = "postgres/message_access.rs"]
mod message_access;
#[path = "postgres/shared_catalogue.rs"]
mod shared_catalogue;
#[path = "postgres/silence.rs"]
mod silence;

use std::{num::NonZeroU32, time::Duration};

use bezoar_core::{
    DeadLetterAccess, DeadLetterPage, Delivery, ErrorKind, Message, MessageId, MessageType,
    Outgoing, QueueAdmin, QueueName, Settlement, SubscribeOptions, Subscription, Transport,
    TransportError, millis,
};
use bezoar_postgres::{Options, PostgresTransport, schema_script};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use test_support::{postgres::Postgres, tcp_proxy::TcpProxy};
use tokio::time::{sleep, timeout};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MANY: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

fn options(url: &str) -> Options {
    Options { poll: Duration::from_millis(200), ..Options::from_url(url).unwrap() }
}

fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

async fn opened(options: Options) -> PostgresTransport {
    let transport = PostgresTransport::open(options).unwrap();
    transport.provision(&queue()).await.unwrap();
    transport
}

fn message(id: &str) -> Outgoing {
    let (id, kind) = (MessageId::new(id).unwrap(), MessageType::new("t").unwrap());
    Message::new(id, kind, millis(1_000), "body").into()
}

async fn send(transport: &PostgresTransport, message: Outgoing) -> Result<(), TransportError> {
    transport.send(&(&queue()).into(), &[message]).await.remove(0).map(drop)
}

async fn subscribed(transport: &PostgresTransport) -> Box<dyn Subscription> {
    transport.subscribe(&queue(), SubscribeOptions::default()).await.unwrap()
}

async fn received(transport: &PostgresTransport) -> Vec<Delivery> {
    subscribed(transport).await.receive(MANY, PATIENCE).await.unwrap()
}

fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|it| it.message.id.to_string()).collect()
}

async fn execute(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

/// Waits until a session waits for a lock.
async fn somebody_waits(connection: &mut PgConnection) {
    let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let look = async {
        while sqlx::raw_sql(sql).fetch_one(&mut *connection).await.unwrap().get::<i64, _>(0) == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, look).await.unwrap();
}

/// Sends through a proxy that is cut while the server works, and returns the result and what was stored.
async fn send_without_answer(outgoing: Outgoing) -> (Result<(), ErrorKind>, Vec<String>) {
    let server = Postgres::start().unwrap();
    let proxy = TcpProxy::to(format!("127.0.0.1:{}", server.port())).unwrap();
    let url = server.url_through(proxy.address().port());
    let through = opened(Options { max_connections: 1, ..options(&url) }).await;
    // Prepares the statement, so that the server has all of it when the connection is cut.
    send(&through, message("first")).await.unwrap();
    let mut other = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut other, "BEGIN; LOCK TABLE bezoar.ready IN EXCLUSIVE MODE").await;
    let sending = tokio::spawn(async move { send(&through, outgoing).await });
    somebody_waits(&mut other).await;
    proxy.cut();
    execute(&mut other, "COMMIT").await;
    let result = timeout(PATIENCE, sending).await.unwrap().unwrap();
    let found = received(&opened(options(&server.url())).await).await;
    (result.map_err(|error| error.kind), ids(&found))
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_lost_answer_leaves_the_outcome_of_a_send_unknown() {
    let (result, stored) = send_without_answer(message("m")).await;
    assert_eq!(result, Err(ErrorKind::OutcomeUnknown));
    assert_eq!(
        stored,
        ["first", "m"],
        "the server had it, so `Unavailable` would have been a guess"
    );
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_lost_answer_to_a_message_that_is_accepted_once_is_found_out() {
    let (result, stored) = send_without_answer(message("m").once(PATIENCE)).await;
    assert_eq!(result, Ok(()));
    assert_eq!(stored, ["first", "m"], "stored once");
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn what_was_accepted_survives_a_crash_of_the_server() {
    let mut server = Postgres::start().unwrap();
    let transport = opened(options(&server.url())).await;
    for number in 0..20 {
        send(&transport, message(&format!("m-{number}"))).await.unwrap();
    }
    let subscription = subscribed(&transport).await;
    let mut held = subscription.receive(MANY, PATIENCE).await.unwrap();
    let kept = held.split_off(10);
    let done = held.into_iter().map(|it| (it, Settlement::Complete)).collect();
    assert!(subscription.settle(done).await.iter().all(Result::is_ok));
    server.kill().unwrap();
    // The processes of the server notice its end one after the other: some messages may still be accepted.
    let mut accepted = 0;
    let down = loop {
        match send(&transport, message(&format!("down-{accepted}"))).await {
            Ok(()) => accepted += 1,
            Err(down) => break down,
        }
    };
    assert!(matches!(down.kind, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown), "{down}");
    server.restart().unwrap();
    let again = kept.into_iter().map(|it| (it, Settlement::Release { after: Duration::ZERO }));
    let again = again.collect::<Vec<_>>();
    // The first tries may find connections that the crash has ended.
    let mut released = 0;
    for (delivery, settlement) in again {
        loop {
            match subscription.settle(vec![(delivery.copy(), settlement.clone())]).await.remove(0) {
                Ok(()) => break,
                Err(error) => assert!(
                    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown),
                    "{error}"
                ),
            }
        }
        released += 1;
    }
    assert_eq!(released, 10, "leases survive");
    let left = received(&transport).await.len() - accepted;
    // Nobody knows whether the one that failed is stored.
    assert!(matches!(left, 10 | 11), "completed messages stay completed: {left} are left");
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn another_process_is_told_of_a_message() {
    let server = Postgres::start().unwrap();
    // Without a notification it would be found by polling after an hour.
    let hour = Duration::from_secs(3_600);
    let slow = || Options { poll: hour, ..options(&server.url()) };
    let (sender, receiver) = (opened(slow()).await, opened(slow()).await);
    let subscription = subscribed(&receiver).await;
    let mut listening = PgConnection::connect(&server.url()).await.unwrap();
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let both = async {
        while sqlx::raw_sql(listens).fetch_one(&mut listening).await.unwrap().get::<i64, _>(0) < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, both).await.unwrap();
    let waiting = tokio::spawn(async move { subscription.receive(MANY, hour).await });
    // Several, because the first may be sent before the receiver waits.
    for number in 0..1_000 {
        send(&sender, message(&format!("m-{number}"))).await.unwrap();
        if waiting.is_finished() {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap().is_empty());
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_row_changed_by_hand_becomes_a_dead_letter_and_holds_up_nothing() {
    let server = Postgres::start().unwrap();
    let transport = opened(options(&server.url())).await;
    for id in ["no-json", "gone", "nameless", "good"] {
        send(&transport, message(id)).await.unwrap();
    }
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut by_hand, "UPDATE bezoar.messages SET headers = 'x' WHERE id = 'no-json'").await;
    execute(&mut by_hand, "UPDATE bezoar.messages SET id = '' WHERE id = 'nameless'").await;
    execute(&mut by_hand, "DELETE FROM bezoar.messages WHERE id = 'gone'").await;
    assert_eq!(ids(&received(&transport).await), ["good"]);
    let dead = transport.dead_letters(&queue(), DeadLetterPage::default()).await.unwrap();
    assert_eq!(dead.len(), 3);
    for letter in dead {
        assert_eq!(letter.reason.to_string(), "Failed to deserialize message");
    }
}

/// The error with which the first use is refused, and its remedy.
async fn refusal(options: Options) -> (ErrorKind, String) {
    let transport = PostgresTransport::open(options).unwrap();
    let refused = transport.provision(&queue()).await.unwrap_err();
    let remedy = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
    (refused.kind, remedy)
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn an_owner_migrates_and_a_user_only_works() {
    let server = Postgres::start().unwrap();
    let mut owner = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut owner, "CREATE ROLE worker LOGIN").await;
    let url = server.url().replace("postgres@", "worker@");
    let worker = || Options { migrate: false, ..options(&url) };
    let (kind, remedy) = refusal(worker()).await;
    assert_eq!(kind, ErrorKind::Unusable);
    assert!(remedy.contains("there is no schema \"bezoar\", and migrate is off"), "{remedy}");
    let (kind, remedy) = refusal(options(&url)).await;
    assert_eq!(kind, ErrorKind::NotAuthorized, "who may not create a schema: {remedy}");
    execute(&mut owner, &schema_script("bezoar")).await;
    let (kind, remedy) = refusal(worker()).await;
    assert_eq!(kind, ErrorKind::NotAuthorized);
    assert!(remedy.contains("GRANT USAGE ON SCHEMA \"bezoar\" TO USER"), "{remedy}");
    execute(
        &mut owner,
        "GRANT USAGE ON SCHEMA bezoar TO worker; GRANT SELECT ON bezoar.meta TO worker",
    )
    .await;
    let (_, remedy) = refusal(worker()).await;
    assert!(remedy.contains("INSERT on messages"), "{remedy}");
    execute(
        &mut owner,
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA bezoar TO worker;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA bezoar TO worker",
    )
    .await;
    let transport = opened(worker()).await;
    send(&transport, message("m")).await.unwrap();
    assert_eq!(ids(&received(&transport).await), ["m"]);
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_schema_that_is_too_new_or_incomplete_is_refused() {
    let server = Postgres::start().unwrap();
    drop(opened(options(&server.url())).await);
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut by_hand, "UPDATE bezoar.meta SET version = 99").await;
    let (kind, remedy) = refusal(options(&server.url())).await;
    assert_eq!(kind, ErrorKind::Unusable);
    assert!(
        remedy.contains("has version 99") && remedy.contains("upgrade this program"),
        "{remedy}"
    );
    execute(&mut by_hand, "UPDATE bezoar.meta SET version = 2; DROP TABLE bezoar.once").await;
    let (kind, remedy) = refusal(options(&server.url())).await;
    assert_eq!(kind, ErrorKind::Unusable);
    assert!(remedy.contains("it lacks once"), "{remedy}");
}

#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn a_read_only_server_and_a_wrong_encoding_have_their_sentences() {
    let server = Postgres::start().unwrap();
    drop(opened(options(&server.url())).await);
    let mut by_hand = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut by_hand, "ALTER DATABASE postgres SET default_transaction_read_only = on").await;
    let (kind, remedy) = refusal(options(&server.url())).await;
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(remedy.contains("read-only standby"), "{remedy}");
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    execute(&mut by_hand, latin).await;
    let url = format!("{}/latin", server.url().trim_end_matches("/postgres"));
    let (kind, remedy) = refusal(options(&url)).await;
    assert_eq!(kind, ErrorKind::Unusable);
    assert!(remedy.contains("encoding LATIN1"), "{remedy}");
}

/// Eight processes start at the same moment: one creates the schema, and all can work.
#[tokio::test]
#[ignore = "starts a PostgreSQL server; `cargo xtask test` installs it"]
async fn several_can_start_at_the_same_time() {
    let server = Postgres::start().unwrap();
    let mut starting = tokio::task::JoinSet::new();
    for number in 0..8 {
        let options = options(&server.url());
        starting.spawn(async move {
            let transport = opened(options).await;
            send(&transport, message(&format!("m-{number}"))).await.unwrap();
        });
    }
    starting.join_all().await;
    assert_eq!(received(&opened(options(&server.url())).await).await.len(), 8);
}

//! What errors must say, and what they must not reveal.

use std::{num::NonZeroU32, path::Path, time::Duration};

use bezoar_core::{
    DeadLetterAccess, DeadLetterPage, Delivery, Destination, MAX_DELAY, Outgoing, QueueAdmin,
    QueueName, Receipt, Settlement, Transport, TransportError, millis,
};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{sql::*, support::*};

#[tokio::test]
async fn no_error_shows_what_is_in_a_message() {
    let folder = folder();
    let options = Options {
        max_message_bytes: 1_000,
        busy_timeout: Duration::from_millis(1),
        ..Options::new(file_in(&folder))
    };
    let transport = open_transport(options.clone()).await;
    let errors = [
        refused_sends(&transport).await,
        stale_settlements(&transport).await,
        locked_operations(&transport, &options.path).await,
        damaged_tables(&transport, &options.path).await,
    ]
    .concat();
    assert!(errors.len() >= 12, "{errors:#?}");
    for error in errors {
        assert!(!error.contains(CANARY) && !error.contains("doe"), "{error}");
    }
    assert!(!format!("{transport:?}").contains(CANARY));
}

/// Errors for messages that are too large, invalid, for an unknown queue, or unsupported.
async fn refused_sends(transport: &SqliteTransport) -> Vec<String> {
    let topic = Destination::Topic { name: queue(), key: "doe".to_owned() };
    let nowhere = Destination::Queue(QueueName::new("nowhere").unwrap());
    let mut large = sensitive("large");
    large.body = CANARY.repeat(100).into();
    let wordy = sensitive("wordy").with_header("name", CANARY.repeat(10_000));
    let nameless = sensitive("nameless").with_header("", CANARY);
    let late = Outgoing::from(sensitive("late")).after(MAX_DELAY * 2);
    let messages: Vec<Outgoing> = vec![large.into(), wordy.into(), nameless.into(), late];
    let mut results = transport.send(&queue().into(), &messages).await;
    results.extend(transport.send(&topic, &messages[..1]).await);
    results.extend(transport.send(&nowhere, &[sensitive("a").into()]).await);
    shown(results)
}

async fn stale_settlements(transport: &SqliteTransport) -> Vec<String> {
    let subscription = subscription(transport).await;
    let stale =
        || Delivery::new(sensitive("stale"), Receipt::from_numbers([1, 1, 1]), Some(millis(1)));
    let settlements = [
        Settlement::Complete,
        Settlement::Retry { after: Duration::ZERO, tries: vec![failed_try()] },
        Settlement::DeadLetter { reason: reason(), tries: vec![failed_try()] },
    ];
    let batch = settlements.into_iter().map(|settlement| (stale(), settlement)).collect();
    let mut results = subscription.settle(batch).await;
    results.extend(subscription.extend(&mut [stale()], Duration::ZERO).await);
    shown(results)
}

async fn locked_operations(transport: &SqliteTransport, path: &Path) -> Vec<String> {
    send(transport, &sensitive("kept")).await.unwrap();
    let subscription = subscription(transport).await;
    let lock = lock(path);
    let mut results = vec![send(transport, &sensitive("refused")).await];
    results.push(subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.map(drop));
    lock.execute_batch("ROLLBACK").unwrap();
    shown(results)
}

/// Errors after tables were dropped or changed while the program runs.
async fn damaged_tables(transport: &SqliteTransport, path: &Path) -> Vec<String> {
    let subscription = subscription(transport).await;
    sql(path, "CREATE UNIQUE INDEX one_body ON bezoar_messages (body)");
    let mut results = vec![send(transport, &sensitive("the same")).await];
    sql(path, "ALTER TABLE bezoar_waiting RENAME TO was_waiting");
    results.push(send(transport, &sensitive("refused")).await);
    results.push(subscription.receive(NonZeroU32::MIN, Duration::ZERO).await.map(drop));
    results.push(transport.depth(&queue()).await.map(drop));
    sql(path, "ALTER TABLE was_waiting RENAME TO bezoar_waiting; DROP TABLE bezoar_messages");
    results.push(send(transport, &sensitive("refused")).await);
    results.push(transport.dead_letters(&queue(), DeadLetterPage::default()).await.map(drop));
    shown(results)
}

fn shown<T>(results: Vec<Result<T, TransportError>>) -> Vec<String> {
    results.into_iter().filter_map(Result::err).map(|error| everything(&error)).collect()
}

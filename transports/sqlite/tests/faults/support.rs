//! Opening a transport with one queue, `lab`, and sending, receiving and settling its messages.

use std::{
    error::Error,
    fs::{self, Permissions},
    num::NonZeroU32,
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bezoar_core::{
    Body, DeadLetter, DeadLetterAccess, DeadLetterPage, Delivery, FailedTry, Failure, Message,
    MessageId, MessageType, Outgoing, QueueAdmin, QueueName, Reason, Settlement, SubscribeOptions,
    Subscription, Transport, TransportError, millis,
};
use bezoar_sqlite::{Options, SqliteTransport};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::sql::wait_until_closed;

pub(crate) const CANARY: &str = "CANARY-7f3a-patient-doe";
/// The timeout for everything that is expected to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    folder
}

pub(crate) fn file_in(folder: &TempDir) -> PathBuf {
    folder.path().join("lab.db")
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

pub(crate) fn id(text: &str) -> MessageId {
    MessageId::new(text).unwrap()
}

pub(crate) fn message(name: &str, body: impl Into<Body>) -> Message {
    Message::new(id(name), MessageType::new("lab.result").unwrap(), millis(1_000), body)
}

/// A message whose every field contains data that must not be shown.
pub(crate) fn sensitive(name: &str) -> Message {
    message(name, CANARY).with_header("name", CANARY)
}

pub(crate) fn failed_try() -> FailedTry {
    FailedTry::new(millis(1_000), Duration::ZERO, &Failure::transient(CANARY))
}

pub(crate) fn reason() -> Reason {
    Reason::new(Reason::EXHAUSTED, "retries exhausted")
}

/// Bytes of every value, the same for the same size.
pub(crate) fn noise(size: usize) -> Bytes {
    let mut state = size as u32 ^ 0x9E37_79B9;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(|_| byte()).collect()
}

pub(crate) async fn open_transport(options: Options) -> SqliteTransport {
    let transport = SqliteTransport::open(options).unwrap();
    transport.provision(&queue()).await.unwrap();
    transport
}

pub(crate) fn outgoing(messages: &[Message]) -> Vec<Outgoing> {
    messages.iter().cloned().map(Outgoing::from).collect()
}

pub(crate) async fn send(
    transport: &SqliteTransport,
    message: &Message,
) -> Result<(), TransportError> {
    transport.send(&queue().into(), &[message.clone().into()]).await.remove(0).map(drop)
}

pub(crate) async fn send_at_once(
    transport: &SqliteTransport,
    numbers: Range<u32>,
    size: usize,
) -> Vec<(String, Result<(), TransportError>)> {
    let mut all = JoinSet::new();
    for number in numbers {
        let transport = transport.clone();
        all.spawn(async move {
            let name = number.to_string();
            let result = send(&transport, &message(&name, noise(size))).await;
            (name, result)
        });
    }
    all.join_all().await
}

pub(crate) fn all_accepted<T>(results: Vec<Result<T, TransportError>>) {
    results.into_iter().map(Result::unwrap).for_each(drop);
}

pub(crate) async fn subscription(transport: &SqliteTransport) -> Box<dyn Subscription> {
    transport.subscribe(&queue(), SubscribeOptions::default()).await.unwrap()
}

pub(crate) async fn receive(transport: &SqliteTransport, max: u32) -> Vec<Delivery> {
    let max = NonZeroU32::new(max).unwrap();
    subscription(transport).await.receive(max, Duration::ZERO).await.unwrap()
}

pub(crate) async fn receive_one(transport: &SqliteTransport) -> Arc<Message> {
    receive(transport, 1).await.remove(0).message
}

pub(crate) async fn settle(
    transport: &SqliteTransport,
    held: Vec<Delivery>,
    settlement: impl Fn(usize) -> Settlement,
) {
    assert!(!held.is_empty());
    let batch = held.into_iter().enumerate().map(|(at, held)| (held, settlement(at)));
    all_accepted(subscription(transport).await.settle(batch.collect()).await);
}

pub(crate) async fn dead_letters(transport: &SqliteTransport) -> Vec<DeadLetter> {
    transport.dead_letters(&queue(), DeadLetterPage::default()).await.unwrap()
}

pub(crate) fn ids(held: &[Delivery]) -> Vec<String> {
    held.iter().map(|held| held.message.id.to_string()).collect()
}

/// A closed database with messages, numbered from 0.
pub(crate) async fn filled(folder: &TempDir, count: usize) -> PathBuf {
    let path = file_in(folder);
    let transport = open_transport(Options::new(&path)).await;
    let messages: Vec<_> =
        (0..count).map(|number| message(&number.to_string(), noise(100))).collect();
    all_accepted(transport.send(&queue().into(), &outgoing(&messages)).await);
    drop(transport);
    wait_until_closed(&path);
    path
}

/// The ids of all messages that can be received.
pub(crate) async fn everything_in(path: &Path) -> Vec<String> {
    ids(&receive(&open_transport(Options::new(path)).await, 10_000).await)
}

/// Display and Debug of an error and of all its sources.
pub(crate) fn everything(error: &TransportError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error} {error:?}"));
        source = error.source();
    }
    text
}

//! No log shows a body, a header value or an error's detail, whatever its level.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    io::{self, Write},
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use bezoar_core::{
    Code, FailedTry, Failure, Message, MessageId, MessageType, QueueAdmin, QueueName, Reason,
    Settlement, SubscribeOptions, Transport, millis,
};
use bezoar_rabbitmq::{Options, RabbitTransport};
use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

const CANARY: &str = "CANARY";
const WAIT: Duration = Duration::from_secs(10);

/// Everything that was logged.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// Whether the canary is in it, as text or as the numbers of its bytes.
    fn shows_canary(&self) -> bool {
        let written = self.0.lock().unwrap();
        let numbers: Vec<_> = CANARY.bytes().map(|byte| byte.to_string()).collect();
        let text = String::from_utf8_lossy(&written);
        text.contains(CANARY) || text.contains(&numbers.join(", "))
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn url() -> String {
    env::var("BEZOAR_TEST_AMQP").unwrap()
}

fn secret() -> Message {
    let (id, kind) = (MessageId::new("m").unwrap(), MessageType::new("sample").unwrap());
    let mut message = Message::new(id, kind, millis(0), CANARY);
    message.headers.insert("patient".to_owned(), CANARY.into());
    message
}

/// Sends a message that is returned by the broker, retried, dead-lettered and replayed.
async fn a_life() {
    let transport = RabbitTransport::open(Options::from_url(&url()).unwrap()).unwrap();
    let nowhere = QueueName::new("there-is-no-such-queue").unwrap();
    let returned = transport.send(&nowhere.into(), &[secret().into()]).await.pop().unwrap();
    assert!(returned.is_err());
    let queue = QueueName::new(format!("privacy-{:08x}", rand::random::<u32>())).unwrap();
    transport.provision(&queue).await.unwrap();
    transport.send(&(&queue).into(), &[secret().into()]).await.pop().unwrap().unwrap();
    let worker = transport.subscribe(&queue, SubscribeOptions::default()).await.unwrap();
    let failure = Failure::transient(CANARY);
    let tries = vec![FailedTry::new(millis(0), Duration::ZERO, &failure)];
    let reason = Reason::new(Code::from_static("test"), "set aside by a test");
    for settlement in [
        Settlement::Retry { after: Duration::from_millis(50), tries: tries.clone() },
        Settlement::DeadLetter { reason, tries },
    ] {
        let held = worker.receive(NonZeroU32::MIN, WAIT).await.unwrap().pop().unwrap();
        worker.settle(vec![(held, settlement)]).await.pop().unwrap().unwrap();
    }
    let feed = transport.dead_letter_feed(&queue).await.unwrap().unwrap();
    assert_eq!(feed.replay_all(1, WAIT).await.unwrap(), 1);
    worker.close().await.unwrap();
    transport.close().await;
}

/// The control: the same with lapin alone.
async fn bare_return() {
    let connection = Connection::connect(&url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let (body, none) = (CANARY.as_bytes(), BasicProperties::default());
    let key = "there-is-no-such-queue".into();
    channel.basic_publish("".into(), key, mandatory, body, none).await.unwrap().await.unwrap();
}

/// Only `lapin::frames` is excluded: at TRACE it shows frames that could not be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a broker in BEZOAR_TEST_AMQP; `cargo xtask test` starts one"]
async fn no_level_of_the_log_shows_what_a_message_holds() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("trace,lapin::frames=info"))
        .with_ansi(false)
        .with_writer(written.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    a_life().await;
    assert!(!written.0.lock().unwrap().is_empty(), "something was logged");
    assert!(!written.shows_canary(), "a message was logged");
    written.clear();
    bare_return().await;
    assert!(written.shows_canary(), "the check finds what lapin logs by itself");
}

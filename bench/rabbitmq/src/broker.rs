//! The broker, as a bare lapin program sees it.

use std::time::Duration;

use anyhow::{Result, ensure};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer,
    options::{
        BasicConsumeOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use tokio::time::{Instant, sleep};

/// About what a small event takes.
pub(crate) const BODY: [u8; 200] = [b'x'; 200];
/// The type of every message, by which the router finds its handler.
pub(crate) const TYPE: &str = "nothing";
/// How many unsettled messages the broker sends ahead, to each program alike.
pub(crate) const PREFETCH: u16 = 256;

const PERSISTENT: u8 = 2;
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A connection of a bare program.
pub(crate) struct Bare {
    connection: Connection,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        Ok(Self { connection })
    }

    /// A channel on which the broker confirms what is published.
    pub(crate) async fn confirming(&self) -> Result<Channel> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// A channel, and what consumes on it.
    pub(crate) async fn consume(&self, queue: &str) -> Result<(Channel, Consumer)> {
        let channel = self.connection.create_channel().await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(queue.into(), "".into(), options, arguments).await?;
        Ok((channel, consumer))
    }

    /// Makes an empty quorum queue. What was there is gone.
    pub(crate) async fn fresh(&self, queue: &str, arguments: &[(&str, AMQPValue)]) -> Result<()> {
        let channel = self.connection.create_channel().await?;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        let mut table = FieldTable::default();
        table.insert("x-queue-type".into(), text("quorum"));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.into(), durable, table).await?;
        Ok(())
    }

    /// Makes durable classic queues, as other programs have them.
    pub(crate) async fn declare_classic(&self, queues: &[String]) -> Result<()> {
        let channel = self.connection.create_channel().await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for queue in queues {
            channel.queue_declare(queue.as_str().into(), durable, FieldTable::default()).await?;
        }
        Ok(())
    }

    /// Removes queues.
    pub(crate) async fn delete(&self, queues: &[&str]) -> Result<()> {
        let channel = self.connection.create_channel().await?;
        for queue in queues {
            channel.queue_delete((*queue).into(), QueueDeleteOptions::default()).await?;
        }
        Ok(())
    }

    /// Waits until so many messages are ready in a queue. A passive declare is exact at once.
    pub(crate) async fn until_ready(&self, queue: &str, count: u64) -> Result<()> {
        let channel = self.connection.create_channel().await?;
        let (passive, deadline) = (passive(), Instant::now() + PATIENCE);
        loop {
            let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await?;
            let ready = u64::from(found.message_count());
            if ready == count {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{ready} instead of {count} are in {queue}");
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Everything is done by then: that a dropped channel is closing as well is no failure.
    pub(crate) async fn close(self) {
        let _ = self.connection.close(200, "done".into()).await;
    }
}

fn passive() -> QueueDeclareOptions {
    QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() }
}

pub(crate) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// What a message of any client may say of itself.
pub(crate) fn properties(number: u64) -> BasicProperties {
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(ShortString::from(number.to_string()))
        .with_type(TYPE.into())
}

//! The dead-letter feed: hands the letters of a dead-letter queue to a catalogue.
//!
//! It is an ordinary consumer, so a letter costs the same however many there are, and several catalogues may share a
//! queue. A letter that we dead-lettered has an id already. One that the broker dead-lettered gets another id each time
//! it is handed out, and says in which session (one consumer on one channel) that is and whether the broker delivered it
//! before: that is what a catalogue recognizes it by. A letter stays unacknowledged, and so on the broker, until it is
//! removed.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    ByteLimit, DeadLetter, DeadLetterFeed, DeadLetterId, MAX_DELAY, Message, QueueName,
    Recognition, TransportError,
};
use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    Options,
    connection::{broker_connection::ChannelGuard, consumer_connection::ConsumerConnection},
    consuming::acknowledgements::{self, Ack},
    dead_letters::unroutable::Origin,
    error::{for_queue, from_lapin, is_unreadable, unreadable},
    topology::UNROUTABLE,
    transport::TransportState,
    wire::{Raw, origin},
};

/// The highest prefetch limit, and so the limit of letters that are handed out and not removed.
const PREFETCH: u16 = 200;
/// How long a batch waits for one more letter: a full batch is cheaper to store than many small ones.
const GATHER: Duration = Duration::from_millis(5);
/// The limit of bytes in a batch's bodies; the first letter is handed out whatever its size.
const BATCH_LIMIT_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct RabbitDeadLetterFeed {
    inner: Arc<TransportState>,
    connection: ConsumerConnection,
    queue: QueueName,
    /// The dead-letter queue.
    name: String,
    prefetch: u16,
    /// Locked while reading: one reader at a time.
    consumer: tokio::sync::Mutex<Option<Consumer>>,
    /// Locked from deciding what to acknowledge until it is written: an ack with `multiple` must not overtake the ack
    /// of a single lower tag.
    answering: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Closing it requeues what was not removed.
    channel: Option<ChannelGuard>,
    /// Distinguishes this channel from earlier ones and from those of other processes.
    session: u64,
    letters: Letters,
}

impl RabbitDeadLetterFeed {
    /// Makes sure that the queue exists. Consuming begins with the first [`next`](DeadLetterFeed::next).
    pub(crate) async fn open(
        inner: Arc<TransportState>,
        queue: QueueName,
    ) -> Result<Self, TransportError> {
        let name = inner.dead_queue_name(&queue, "dead_letter_feed")?;
        inner.ready_count(&queue, &name, "dead_letter_feed").await?;
        Ok(Self {
            connection: ConsumerConnection::new(&inner.dead, &inner.options, "dead letters alone"),
            prefetch: prefetch(&inner.options),
            inner,
            queue,
            name,
            consumer: tokio::sync::Mutex::default(),
            answering: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn consume(&self) -> Result<Consumer, TransportError> {
        self.forget_channel().await;
        let connection = self.connection.current();
        let mut channel = connection.guarded_channel("dead_letter_feed").await?;
        let opening = async {
            channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
            let (name, options) = (self.name.as_str().into(), BasicConsumeOptions::default());
            channel.basic_consume(name, "".into(), options, FieldTable::default()).await
        };
        let consumer = connection.with_timeout(opening, "dead_letter_feed").await?;
        let consumer = consumer.map_err(|source| match is_unreadable(&source) {
            true => unreadable(self.connection.isolate(), "dead_letter_feed"),
            false => for_queue(&source, &self.queue, "dead_letter_feed"),
        })?;
        channel.keep_until_closed(&consumer);
        let mut state = self.lock();
        state.channel = Some(channel);
        state.session = rand::random();
        drop(state);
        Ok(consumer)
    }

    /// Closes the channel; the broker requeues what was not removed. Not while acks are being written: an ack after
    /// `channel.close` would make the broker close the connection.
    async fn forget_channel(&self) {
        let _turn = self.answering.lock().await;
        *self.lock() = State::default();
    }

    /// Takes in letters until there are `max`, or no more arrive.
    async fn gather(
        &self,
        consumer: &mut Consumer,
        max: usize,
        deadline: Instant,
    ) -> Result<Arrivals, TransportError> {
        loop {
            let arrived = self.lock().letters.waiting.len();
            let deadline = if arrived == 0 { deadline } else { Instant::now() + GATHER };
            // Once all that the broker sends ahead are here, waiting for one more is in vain.
            if arrived >= max.min(self.prefetch.into()) {
                return Ok(Arrivals::Some);
            }
            match timeout_at(deadline, consumer.next()).await {
                Ok(Some(Ok(letter))) => self.arrive(letter),
                Ok(Some(Err(source))) => {
                    return Err(match is_unreadable(&source) {
                        true => unreadable(self.connection.isolate(), "dead_letter_feed"),
                        false => from_lapin(&source, "dead_letter_feed"),
                    });
                }
                Ok(None) => return Ok(Arrivals::Ended),
                Err(_) => return Ok(Arrivals::Some),
            }
        }
    }

    fn arrive(&self, letter: lapin::message::Delivery) {
        let (tag, redelivered) = (letter.delivery_tag, letter.redelivered);
        let raw = origin::with_original_route(Raw::delivered(letter, self.queue.clone()));
        let mut state = self.lock();
        let unstamped = Recognition::Content { session: state.session, redelivered };
        let letter = self.inner.identify(&self.queue, &raw, unstamped);
        let origin = Origin::of(&raw);
        let origin_queue = origin.as_ref().map(|it| &it.queue);
        let message = origin::pack(&raw, letter.message, origin_queue, &self.inner.vhost);
        let letter = DeadLetter { message, ..letter };
        state.letters.arrive(Waiting { tag, letter, origin });
    }

    /// Sends delayed messages whose queue exists after all back to it. While a node of a cluster restarts, RabbitMQ 3.10
    /// may find no route to a queue that is there.
    ///
    /// Those of a queue that does not exist stay, and are handed out. An outage is an error, and all stay.
    async fn return_to_queues(&self, max: usize) -> Result<(), TransportError> {
        let (mut returned, mut outage) = (BTreeSet::new(), None);
        let returnable = self.lock().letters.returnable(max);
        for (tag, message, origin) in returnable {
            let unpacked = origin::unpack(&origin.queue, &message);
            let Ok((raw, message)) = unpacked else { continue };
            match self.inner.return_to(&origin, &raw, &message).await {
                Ok(true) => drop(returned.insert(tag)),
                Ok(false) => (),
                Err(failed) => outage = Some(failed),
            }
        }
        if !returned.is_empty() {
            tracing::info!(messages = returned.len(), "returned to their queues from {UNROUTABLE}");
            self.answer(|held| held.take_back(returned)).await?;
        }
        outage.map_or(Ok(()), Err)
    }

    /// Acknowledges what `decide` returns, on the channel that the letters came from.
    async fn answer(
        &self,
        decide: impl FnOnce(&mut Letters) -> Vec<Ack>,
    ) -> Result<(), TransportError> {
        let _turn = self.answering.lock().await;
        let (acks, channel) = {
            let mut state = self.lock();
            (decide(&mut state.letters), state.channel.as_ref().map(|it| Channel::clone(it)))
        };
        let Some(channel) = channel else { return Ok(()) };
        let written = acknowledgements::write(&channel, acks).await;
        written.map_err(|source| from_lapin(&source, "remove"))
    }
}

/// How many letters the broker may send ahead, if every one is as large as a message may be; at least one. Unlike that of
/// a worker, the number is not adapted to the sizes: a feed does not need more for its speed.
fn prefetch(options: &Options) -> u16 {
    let fitting = u16::try_from(options.max_prefetch_bytes / options.max_message_bytes.max(1));
    fitting.unwrap_or(PREFETCH).clamp(1, PREFETCH)
}

enum Arrivals {
    Some,
    /// The broker has cancelled the consumer.
    Ended,
}

#[async_trait]
impl DeadLetterFeed for RabbitDeadLetterFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let (deadline, max) = (Instant::now() + wait.min(MAX_DELAY), max.get() as usize);
        let Ok(mut reading) = timeout_at(deadline, self.consumer.lock()).await else {
            return Ok(Vec::new());
        };
        loop {
            if reading.is_none() {
                *reading = Some(self.consume().await?);
            }
            let consumer = reading.as_mut().expect("just created");
            let arrivals = self.gather(consumer, max, deadline).await;
            if !matches!(arrivals, Ok(Arrivals::Some)) {
                *reading = None;
                arrivals?;
                continue;
            }
            if self.queue.as_str() == UNROUTABLE {
                self.return_to_queues(max).await?;
            }
            let some = self.lock().letters.hand_out(max);
            if !some.is_empty() || Instant::now() >= deadline {
                return Ok(some);
            }
        }
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        self.answer(|held| held.remove(letters)).await
    }

    async fn replay(&self, messages: &[Message]) -> Vec<Result<(), TransportError>> {
        self.inner.replay_messages(&self.queue, messages).await
    }
}

/// A letter that was not handed out yet.
struct Waiting {
    tag: u64,
    letter: DeadLetter,
    /// Where the message failed or was to return to, if that is another queue.
    origin: Option<Origin>,
}

/// The letters on the channel that are not acknowledged.
#[derive(Default)]
struct Letters {
    waiting: VecDeque<Waiting>,
    handed_out: HashMap<DeadLetterId, Vec<u64>>,
    /// All tags that are not acknowledged.
    open: BTreeSet<u64>,
}

impl std::fmt::Debug for Letters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Letters({} open)", self.open.len())
    }
}

impl Letters {
    fn arrive(&mut self, arrived: Waiting) {
        self.open.insert(arrived.tag);
        self.waiting.push_back(arrived);
    }

    /// The caller returns the batch without another await: a dropped future has handed out nothing.
    fn hand_out(&mut self, max: usize) -> Vec<DeadLetter> {
        let (mut limit, mut batch) = (ByteLimit::new(BATCH_LIMIT_BYTES), Vec::new());
        while let Some(next) = self.waiting.front().filter(|_| batch.len() < max) {
            if !limit.admits(next.letter.message.body.len()) {
                break;
            }
            let Waiting { tag, letter, .. } = self.waiting.pop_front().expect("just looked at");
            self.handed_out.entry(letter.id).or_default().push(tag);
            batch.push(letter);
        }
        batch
    }

    /// The tags, messages and origins of the letters that wait at the front and know where they belong.
    fn returnable(&self, max: usize) -> Vec<(u64, Message, Origin)> {
        let first = self.waiting.iter().take(max);
        let known = |it: &Waiting| Some((it.tag, it.letter.message.clone(), it.origin.clone()?));
        first.filter_map(known).collect()
    }

    /// Closes letters that were not handed out and are not going to be.
    fn take_back(&mut self, tags: BTreeSet<u64>) -> Vec<Ack> {
        self.waiting.retain(|it| !tags.contains(&it.tag));
        self.acks(tags.into_iter().collect())
    }

    fn remove(&mut self, letters: &[DeadLetterId]) -> Vec<Ack> {
        let tags = letters.iter().filter_map(|id| self.handed_out.remove(id)).flatten().collect();
        self.acks(tags)
    }

    /// Closes tags; returns how to acknowledge them.
    fn acks(&mut self, mut tags: Vec<u64>) -> Vec<Ack> {
        tags.retain(|tag| self.open.remove(tag));
        acknowledgements::group(tags, self.open.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_letters_are_sent_a_few_at_a_time() {
        const MIB: usize = 1024 * 1024;
        let limit = |max_message_bytes| {
            let options = Options::from_url("amqp://localhost").unwrap();
            prefetch(&Options { max_message_bytes, ..options })
        };
        assert_eq!(limit(16 * MIB), 32);
        assert_eq!(limit(MIB), 200);
        assert_eq!(limit(0), 200);
        assert_eq!(limit(usize::MAX), 1);
    }

    #[test]
    fn a_letter_is_acknowledged_once() {
        let mut letters = Letters { open: (1..=3).collect(), ..Letters::default() };
        assert_eq!(letters.acks(vec![2, 1]), [Ack { tag: 2, multiple: true }]);
        assert_eq!(letters.acks(vec![1]), []);
    }
}

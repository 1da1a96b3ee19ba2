//! Dead letters on their way to a catalogue elsewhere.
//!
//! A consumer like any other, so that a letter costs the same however many there are, and several catalogues
//! may share a queue. A letter of ours has its id. One that the broker put there is given one when it is
//! handed out; if it is flagged as redelivered it may have been taken before, and is first replaced by a copy
//! that has its id, so that it keeps it from then on.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    DeadLetter, DeadLetterFeed, DeadLetterId, MAX_DELAY, Message, QueueName, TransportError,
};
use futures_util::StreamExt;
use lapin::{
    Channel, Consumer,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    connection::broker_connection::ChannelGuard,
    error::{for_queue, from_lapin, queue_not_found, unreadable},
    publishing::publisher::{Publication, Published},
    transport::TransportState,
    wire::{Raw, origin},
};

/// How many letters the broker sends ahead. So many can be in hand at once.
const PREFETCH: u16 = 200;
/// How long a batch waits for one letter more: a full batch is cheaper to store than many of one.
const GATHER: Duration = Duration::from_millis(5);
/// The most bytes of bodies in a batch; the first is handed out whatever its size.
const BATCH_LIMIT_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct RabbitDeadLetterFeed {
    inner: Arc<TransportState>,
    queue: QueueName,
    /// The dead-letter queue.
    name: String,
    /// Held while reading, so that who waits takes turns.
    consumer: tokio::sync::Mutex<Option<Consumer>>,
    /// Held from deciding how to answer until it is written: an answer for all up to a tag must not overtake
    /// the answer to a single one below it.
    answering: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was not removed is given back with it.
    channel: Option<ChannelGuard>,
    letters: Letters,
}

impl RabbitDeadLetterFeed {
    /// Makes sure that there is such a queue. Reading begins with the first [`next`](DeadLetterFeed::next).
    pub(crate) async fn open(
        inner: Arc<TransportState>,
        queue: QueueName,
    ) -> Result<Self, TransportError> {
        let name = inner.dead_queue_name(&queue, "dead_letter_feed")?;
        inner.ready_count(&queue, &name, "dead_letter_feed").await?;
        Ok(Self {
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
        let mut channel = self.inner.dead.guarded_channel("dead_letter_feed").await?;
        let opening = async {
            channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
            let (name, options) = (self.name.as_str().into(), BasicConsumeOptions::default());
            channel.basic_consume(name, "".into(), options, FieldTable::default()).await
        };
        let consumer = self.inner.dead.with_timeout(opening, "dead_letter_feed").await?;
        let consumer =
            consumer.map_err(|source| for_queue(&source, &self.queue, "dead_letter_feed"))?;
        channel.keep_until_closed(&consumer);
        self.lock().channel = Some(channel);
        Ok(consumer)
    }

    /// Closes the channel; the broker requeues what was not removed. Not while acks are being written: an ack after
    /// `channel.close` would make the broker close the connection.
    async fn forget_channel(&self) {
        let _turn = self.answering.lock().await;
        *self.lock() = State::default();
    }

    /// Takes in letters until there are `max`, or no more come.
    async fn gather(
        &self,
        consumer: &mut Consumer,
        max: usize,
        deadline: Instant,
    ) -> Result<Arrivals, TransportError> {
        loop {
            let arrived = self.lock().letters.arrived();
            let deadline = if arrived == 0 { deadline } else { Instant::now() + GATHER };
            if arrived >= max {
                return Ok(Arrivals::Some);
            }
            match timeout_at(deadline, consumer.next()).await {
                Ok(Some(Ok(letter))) => self.arrive(letter),
                Ok(Some(Err(source))) => {
                    let other = || from_lapin(&source, "dead_letter_feed");
                    return Err(unreadable(&source).unwrap_or_else(other));
                }
                Ok(None) => return Ok(Arrivals::Ended),
                Err(_) => return Ok(Arrivals::Some),
            }
        }
    }

    fn arrive(&self, letter: lapin::message::Delivery) {
        let (tag, redelivered) = (letter.delivery_tag, letter.redelivered);
        let raw = origin::with_original_route(Raw::from(letter));
        let (letter, copy) = self.inner.identify(&self.queue, &raw);
        let message = origin::pack(&raw, letter.message);
        let letter = DeadLetter { message, ..letter };
        let copy = copy.filter(|_| redelivered);
        self.lock().letters.arrive(tag, letter, copy);
    }

    /// Replaces letters that need a lasting id. Until that is done they are remembered, with the same id.
    async fn stamp(&self) -> Result<(), TransportError> {
        let (tags, copies): (Vec<_>, Vec<_>) = self.lock().letters.unstamped().into_iter().unzip();
        let (mut stored, mut failed) = (Vec::new(), None);
        let outcomes = self.inner.publisher.publish(copies, "dead_letter_feed").await;
        for (tag, outcome) in tags.into_iter().zip(outcomes) {
            match outcome {
                Ok(Published::Stored) => stored.push(tag),
                Ok(Published::NotRouted) => {
                    failed = Some(queue_not_found(&self.queue, "dead_letter_feed"));
                }
                Err(error) => failed = Some(error),
            }
        }
        // Those that are stored are removed whatever became of the others, or they would be there twice.
        self.answer(|letters| letters.stamped(&stored)).await?;
        failed.map_or(Ok(()), Err)
    }

    /// Acknowledges what is decided, on the channel that it was decided for.
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
        for (tag, multiple) in acks {
            let acked = channel.basic_ack(tag, BasicAckOptions { multiple }).await;
            acked.map_err(|source| from_lapin(&source, "remove"))?;
        }
        Ok(())
    }
}

enum Arrivals {
    Some,
    /// The broker sends no more.
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
            let consumer = reading.as_mut().expect("it was just made");
            let arrivals = self.gather(consumer, max, deadline).await;
            if !matches!(arrivals, Ok(Arrivals::Some)) {
                *reading = None;
                arrivals?;
                continue;
            }
            self.stamp().await?;
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

/// A tag, and whether all below it are meant as well.
type Ack = (u64, bool);

/// What the broker has sent and we have not answered.
#[derive(Default)]
struct Letters {
    waiting: VecDeque<(u64, DeadLetter)>,
    unstamped: Vec<(u64, Publication)>,
    in_hand: HashMap<DeadLetterId, Vec<u64>>,
    /// All tags without an answer.
    open: BTreeSet<u64>,
}

impl std::fmt::Debug for Letters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Letters({} open)", self.open.len())
    }
}

impl Letters {
    fn arrived(&self) -> usize {
        self.waiting.len() + self.unstamped.len()
    }

    fn arrive(&mut self, tag: u64, letter: DeadLetter, copy: Option<Publication>) {
        self.open.insert(tag);
        match copy {
            Some(copy) => self.unstamped.push((tag, copy)),
            None => self.waiting.push_back((tag, letter)),
        }
    }

    fn unstamped(&self) -> Vec<(u64, Publication)> {
        self.unstamped.clone()
    }

    /// Nothing is awaited between this and the caller's return: dropped before, nothing was handed out.
    fn hand_out(&mut self, max: usize) -> Vec<DeadLetter> {
        let (mut bytes, mut batch) = (0, Vec::new());
        while let Some((_, letter)) = self.waiting.front().filter(|_| batch.len() < max) {
            bytes += letter.message.body.len();
            if bytes > BATCH_LIMIT_BYTES && !batch.is_empty() {
                break;
            }
            let (tag, letter) = self.waiting.pop_front().expect("it was looked at");
            self.in_hand.entry(letter.id).or_default().push(tag);
            batch.push(letter);
        }
        batch
    }

    fn stamped(&mut self, tags: &[u64]) -> Vec<Ack> {
        self.unstamped.retain(|(tag, _)| !tags.contains(tag));
        self.acks(tags.to_vec())
    }

    fn remove(&mut self, letters: &[DeadLetterId]) -> Vec<Ack> {
        let tags = letters.iter().filter_map(|id| self.in_hand.remove(id)).flatten().collect();
        self.acks(tags)
    }

    /// One answer for all below the lowest tag that stays open, one each for the others.
    fn acks(&mut self, mut tags: Vec<u64>) -> Vec<Ack> {
        tags.retain(|tag| self.open.remove(tag));
        tags.sort_unstable();
        let lowest = self.open.first().copied().unwrap_or(u64::MAX);
        let below = tags.partition_point(|tag| *tag < lowest);
        let together = tags[..below].last().map(|tag| (*tag, true));
        together.into_iter().chain(tags[below..].iter().map(|tag| (*tag, false))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_lowest_open_tag_is_answered_together() {
        let mut letters = Letters { open: (1..=9).collect(), ..Letters::default() };
        assert_eq!(letters.acks(vec![3, 1, 2]), [(3, true)]);
        assert_eq!(letters.acks(vec![4, 6, 7]), [(4, true), (6, false), (7, false)]);
        assert_eq!(letters.acks(vec![4, 6]), [], "each is answered once");
        assert_eq!(letters.acks(vec![5, 8, 9]), [(9, true)]);
    }
}

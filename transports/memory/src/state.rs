//! The place of every message, and the moves between places. Plain data, without locks or waiting.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use bezoar_core::{
    Acceptance, ByteLimit, DeadLetter, DeadLetterId, DeadLetterIds, Delivery, Depth, ErrorKind,
    Message, MessageId, OrderingKey, Outgoing, QueueName, Receipt, Recognition, Settlement,
    SubscribeOptions, millis, to_millis,
};
use jiff::Timestamp;
use tokio::sync::Notify;

/// The place of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not in the queue: not sent yet, completed, or discarded.
    Outside,
    /// To be delivered, now or after its delay.
    Waiting,
    /// Leased to a worker.
    Leased,
    /// A dead letter.
    Dead,
}

/// A move of a message from one place to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The id of the message.
    pub id: MessageId,
    /// Where it was.
    pub from: Place,
    /// Where it is now.
    pub to: Place,
    /// The time of the move.
    pub at: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) queues: BTreeMap<QueueName, Queue>,
    /// The last number assigned to a message, a lease or a dead letter. Numbers are never reused.
    last: i64,
    /// Moves not yet reported.
    pub(crate) moves: Vec<Transition>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Messages by the time from which they can be delivered, then by number. A leased message waits for the end of
    /// its lease.
    waiting: BTreeMap<(i64, i64), Entry>,
    /// When each lease ends, by the message's number.
    leased: HashMap<i64, i64>,
    /// Dead letters by the number of their id, in the order of dead-lettering, with the number of each
    /// message, so that a replay restores the order in which they were sent.
    pub(crate) dead: BTreeMap<i64, (i64, DeadLetter)>,
    /// Ids that are accepted only once, with the end of their window and the hash of the body.
    once: BTreeMap<MessageId, (i64, u64)>,
    pub(crate) wake: Arc<Notify>,
    /// The keys with a message in `waiting`, each with its later messages in order.
    keys: HashMap<OrderingKey, VecDeque<(i64, i64, Message)>>,
    /// Dead letters that an open feed has handed out.
    pub(crate) fed: HashSet<DeadLetterId>,
    /// Notified when there may be a dead letter for a feed.
    pub(crate) letters: Arc<Notify>,
}

#[derive(Debug)]
struct Entry {
    message: Message,
    token: Option<i64>,
}

impl Entry {
    fn place(&self) -> Place {
        if self.token.is_some() { Place::Leased } else { Place::Waiting }
    }
}

impl Queue {
    /// Whether the same message was accepted before. If not, its id is remembered from now on. An error if a
    /// different message has the id.
    fn repeats(&mut self, outgoing: &Outgoing, now: Timestamp) -> Result<bool, ErrorKind> {
        let Some(window) = outgoing.once else { return Ok(false) };
        self.once.retain(|_, (until, _)| *until > now.as_millisecond());
        let (id, digest) = (&outgoing.message.id, outgoing.message.body_digest());
        match self.once.get(id) {
            Some((_, known)) if *known != digest => Err(ErrorKind::Conflict(id.clone())),
            Some(_) => Ok(true),
            None => {
                self.once.insert(id.clone(), (after(now, window), digest));
                Ok(false)
            }
        }
    }

    /// Makes a message wait: for its delay, or behind an earlier one of its key.
    fn enqueue(&mut self, visible: i64, seq: i64, message: Message) {
        if let Some(key) = &message.ordering_key {
            if let Some(later) = self.keys.get_mut(key) {
                return later.push_back((visible, seq, message));
            }
            self.keys.insert(key.clone(), VecDeque::new());
        }
        self.insert(visible, seq, message);
    }

    fn insert(&mut self, visible: i64, seq: i64, message: Message) {
        self.waiting.insert((visible, seq), Entry { message, token: None });
        self.wake.notify_waiters();
    }

    /// Unblocks the next message of a key, after the previous one was completed or dead-lettered. It still
    /// waits for its delay.
    fn unblock_next(&mut self, key: Option<&OrderingKey>, now: Timestamp) {
        let Some(key) = key else { return };
        match self.keys.get_mut(key).and_then(VecDeque::pop_front) {
            Some((visible, seq, message)) => {
                self.insert(visible.max(now.as_millisecond()), seq, message);
            }
            None => drop(self.keys.remove(key)),
        }
    }

    /// When the next message can be delivered.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.waiting.first_key_value().map(|(&(visible, _), _)| millis(visible))
    }

    pub(crate) fn depth(&self, now: Timestamp) -> Depth {
        let now = now.as_millisecond();
        let (mut ready, mut delayed, mut leased) = (0, 0, 0);
        for (&(visible, _), entry) in &self.waiting {
            match entry.token {
                _ if visible <= now => ready += 1,
                Some(_) => leased += 1,
                None => delayed += 1,
            }
        }
        delayed += self.keys.values().map(|later| later.len() as u64).sum::<u64>();
        let mut depth = Depth::default();
        (depth.ready, depth.delayed) = (Some(ready), Some(delayed));
        (depth.leased, depth.dead) = (Some(leased), Some(self.dead.len() as u64));
        depth.oldest_ready = self.next().filter(|next| next.as_millisecond() <= now);
        depth.oldest_dead = self.dead.values().next().map(|(_, dead)| dead.at);
        depth
    }
}

impl State {
    fn number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    fn moved(&mut self, id: MessageId, from: Place, to: Place, at: Timestamp) {
        self.moves.push(Transition { id, from, to, at });
    }

    /// Puts a message into an existing queue, unless it is a duplicate.
    pub(crate) fn send(
        &mut self,
        queue: &QueueName,
        outgoing: &Outgoing,
        now: Timestamp,
    ) -> Result<Acceptance, ErrorKind> {
        let number = self.number();
        let queue = self.queues.get_mut(queue).expect("checked by the caller");
        if queue.repeats(outgoing, now)? {
            return Ok(Acceptance::Repeated);
        }
        let message = outgoing.message.clone();
        let id = message.id.clone();
        queue.enqueue(after(now, outgoing.delay), number, message);
        self.moved(id, Place::Outside, Place::Waiting, now);
        Ok(Acceptance::New)
    }

    /// Leases up to `max` messages, counting the acquisition.
    pub(crate) fn claim(
        &mut self,
        queue: &QueueName,
        max: u32,
        options: &SubscribeOptions,
        now: Timestamp,
    ) -> Vec<Delivery> {
        let Some(entries) = self.queues.get(queue).map(|queue| &queue.waiting) else {
            return Vec::new();
        };
        // All are chosen before any is leased: with a lease of zero length, a message would be due
        // again at once.
        let due = entries.range(..=(now.as_millisecond(), i64::MAX));
        let mut limit = ByteLimit::new(options.max_bytes);
        let due = due.take(max as usize);
        let due = due.take_while(|(_, entry)| limit.admits(entry.message.body.len()));
        let due: Vec<_> = due.map(|(key, _)| *key).collect();
        due.into_iter().filter_map(|key| self.lease(queue, key, options.lease, now)).collect()
    }

    fn lease(
        &mut self,
        queue: &QueueName,
        key: (i64, i64),
        lease: Duration,
        now: Timestamp,
    ) -> Option<Delivery> {
        let token = self.number();
        let entries = &mut self.queues.get_mut(queue)?.waiting;
        let (until, mut entry) = (after(now, lease), entries.remove(&key)?);
        let from = entry.place();
        let receipt = Receipt::from_numbers([key.1, token, 0]);
        let delivery = Delivery::new(entry.message.clone(), receipt, Some(millis(until)));
        entry.message.ledger.acquire();
        entry.token = Some(token);
        entries.insert((until, key.1), entry);
        self.queues.get_mut(queue)?.leased.insert(key.1, until);
        self.moved(delivery.message.id.clone(), from, Place::Leased, now);
        Some(delivery)
    }

    /// Applies the settlement; `false` if the receipt is stale.
    pub(crate) fn settle(
        &mut self,
        queue: &QueueName,
        delivery: &Delivery,
        settlement: Settlement,
        now: Timestamp,
    ) -> bool {
        let Some((seq, Entry { mut message, .. })) = self.take(queue, delivery) else {
            return false;
        };
        let id = message.id.clone();
        settlement.record(&mut message.ledger);
        if matches!(settlement, Settlement::Complete | Settlement::DeadLetter { .. }) {
            let queue = self.queues.get_mut(queue).expect("the delivery came from this queue");
            queue.unblock_next(message.ordering_key.as_ref(), now);
        }
        let to = match settlement {
            Settlement::Complete => Place::Outside,
            Settlement::Retry { after, .. }
            | Settlement::Release { after }
            | Settlement::Uncounted { after, .. } => self.put(queue, seq, message, after, now),
            Settlement::DeadLetter { reason, .. } => {
                let id = DeadLetterId::from_number(self.number());
                let dead = DeadLetter {
                    id,
                    queue: queue.clone(),
                    message,
                    reason,
                    at: now,
                    recognition: Recognition::Id,
                };
                let queue = self.queues.get_mut(queue).expect("the delivery came from this queue");
                queue.dead.insert(id.number(), (seq, dead));
                queue.letters.notify_waiters();
                Place::Dead
            }
            _ => self.put(queue, seq, message, Duration::ZERO, now),
        };
        self.moved(id, Place::Leased, to, now);
        true
    }

    /// Renews a lease for `lease` from now; `None` if the receipt is stale.
    pub(crate) fn extend(
        &mut self,
        queue: &QueueName,
        delivery: &Delivery,
        lease: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let (seq, entry) = self.take(queue, delivery)?;
        let until = after(now, lease);
        let queue = self.queues.get_mut(queue)?;
        queue.waiting.insert((until, seq), entry);
        queue.leased.insert(seq, until);
        Some(millis(until))
    }

    /// Replays dead letters as a new generation.
    pub(crate) fn replay(
        &mut self,
        queue: &QueueName,
        selection: &DeadLetterIds,
        now: Timestamp,
    ) -> u64 {
        let chosen = self.take_dead(queue, selection);
        let count = chosen.len() as u64;
        for (seq, mut dead) in chosen {
            dead.message.ledger.replay();
            self.moved(dead.message.id.clone(), Place::Dead, Place::Waiting, now);
            let queue = self.queues.get_mut(queue).expect("queues are never removed");
            queue.enqueue(now.as_millisecond(), seq, dead.message);
        }
        count
    }

    /// Discards dead letters.
    pub(crate) fn discard(
        &mut self,
        queue: &QueueName,
        selection: &DeadLetterIds,
        now: Timestamp,
    ) -> u64 {
        let chosen = self.take_dead(queue, selection);
        let count = chosen.len() as u64;
        for (_, dead) in chosen {
            self.moved(dead.message.id, Place::Dead, Place::Outside, now);
        }
        count
    }

    fn put(
        &mut self,
        queue: &QueueName,
        seq: i64,
        message: Message,
        delay: Duration,
        now: Timestamp,
    ) -> Place {
        let queue = self.queues.get_mut(queue).expect("queues are never removed");
        queue.insert(after(now, delay), seq, message);
        Place::Waiting
    }

    /// Removes the entry that exactly this lease holds.
    fn take(&mut self, queue: &QueueName, delivery: &Delivery) -> Option<(i64, Entry)> {
        let [key, token, _] = delivery.receipt.numbers()?;
        let queue = self.queues.get_mut(queue)?;
        let place = (*queue.leased.get(&key)?, key);
        if queue.waiting.get(&place)?.token != Some(token) {
            return None;
        }
        queue.leased.remove(&key);
        Some((key, queue.waiting.remove(&place)?))
    }

    fn take_dead(
        &mut self,
        queue: &QueueName,
        selection: &DeadLetterIds,
    ) -> Vec<(i64, DeadLetter)> {
        let Some(queue) = self.queues.get_mut(queue) else { return Vec::new() };
        match selection {
            DeadLetterIds::All => std::mem::take(&mut queue.dead).into_values().collect(),
            DeadLetterIds::Ids(ids) => {
                ids.iter().filter_map(|id| queue.dead.remove(&id.number())).collect()
            }
        }
    }
}

fn after(now: Timestamp, delay: Duration) -> i64 {
    millis(now.as_millisecond().saturating_add(to_millis(delay))).as_millisecond()
}

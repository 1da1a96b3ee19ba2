//! A transport with the limits of Azure Storage Queue, modelled on queues in memory: 64 KiB for everything after
//! base64, whole seconds, no order, no wait at the server, no depth, and only a feed of dead letters. It passes
//! every case that its capabilities allow, which proves that no case requires more than a transport declares.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Capabilities, Counting, DeadLetter, DeadLetterFeed, DeadLetterId, Delivery, Depth, Destination,
    ErrorKind, Ledger, Message, Outgoing, QueueAdmin, QueueName, Settlement, SettlementDurability,
    SubscribeOptions, Transport, TransportError,
};

use super::{
    Control,
    broken::{Acceptances, Defect, Opened, Outcomes, Settlements, Store},
};

const SECOND: Duration = Duration::from_secs(1);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The maximum size of a message in base64.
const ENCODED_BYTES: usize = 64 * 1024;
/// Room for six names of full length, times and counts.
const ENVELOPE_BYTES: usize = 2 * 1024;
const BODY_BYTES: usize = ENCODED_BYTES / 4 * 3 - ENVELOPE_BYTES;

/// A transport with these limits, and the capabilities that it declares.
#[derive(Debug, Default)]
pub(crate) struct SmallQueues {
    declared: Declared,
    looks: AtomicUsize,
}

/// Which limit a transport declares wrongly.
#[derive(Debug, Clone, Copy, Default)]
enum Declared {
    #[default]
    WhatItKeeps,
    LargerBodies,
    LargerMessages,
    LongerDelays,
    LongerLeases,
    ShorterLeases,
}

/// A transport that declares more than it supports.
pub(crate) fn controls() -> Vec<Control> {
    const LEASES: &[&str] = &["leases::the_shortest_and_the_longest_lease_are_accepted"];
    let declares = |name, declared: Declared, caught_by| {
        Control::new(name, move || SmallQueues { declared, ..SmallQueues::default() }, caught_by)
    };
    vec![
        declares(
            "declares larger bodies than it supports",
            Declared::LargerBodies,
            &["bodies::a_body_of_the_greatest_size_comes_back"],
        ),
        declares(
            "declares larger messages than it supports",
            Declared::LargerMessages,
            &["headers::long_headers_come_back"],
        ),
        declares(
            "declares longer delays than it supports",
            Declared::LongerDelays,
            &["delays::the_longest_declared_delay_is_accepted"],
        ),
        declares("declares longer leases than it supports", Declared::LongerLeases, LEASES),
        declares("declares shorter leases than it supports", Declared::ShorterLeases, LEASES),
    ]
}

fn kept() -> Capabilities {
    let mut can = Capabilities::new("memory", BODY_BYTES);
    can.max_encoded_bytes = Some(ENCODED_BYTES);
    can.scheduled = Some(WEEK);
    can.time_to_live = true;
    can.durable = true;
    (can.shortest_lease, can.longest_lease) = (SECOND, WEEK);
    can.settlement = SettlementDurability::Durable;
    can.acquired = Counting::AtLeast;
    can.lag = Duration::from_millis(50);
    can.dead_letter_feed = true;
    can
}

#[async_trait]
impl Defect for SmallQueues {
    fn capabilities(&self, _: Capabilities) -> Capabilities {
        let mut can = kept();
        match self.declared {
            Declared::WhatItKeeps => (),
            Declared::LargerBodies => can.max_message_bytes = ENCODED_BYTES,
            Declared::LargerMessages => can.max_encoded_bytes = Some(8 * ENCODED_BYTES),
            Declared::LongerDelays => can.scheduled = Some(2 * WEEK),
            Declared::LongerLeases => can.longest_lease = 2 * WEEK,
            Declared::ShorterLeases => can.shortest_lease = SECOND / 2,
        }
        can
    }

    fn options(&self, asked: SubscribeOptions) -> SubscribeOptions {
        kept().check_lease(asked.lease).expect("a case uses only declared leases");
        asked
    }

    /// Stores each batch from its end, because this transport promises no order.
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let mut results = Vec::new();
        for outgoing in batch.iter().rev() {
            results.push(match stored(outgoing) {
                Ok(outgoing) => {
                    store.memory.send(to, &[outgoing]).await.pop().expect("one was sent")
                }
                Err(error) => Err(error),
            });
        }
        results.reverse();
        results
    }

    /// Never waits, and finds nothing at every other call, as a distributed store may.
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        _: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        if self.looks.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return Ok(Vec::new());
        }
        let mut received = open.inner.receive(max, Duration::ZERO).await?;
        received.iter_mut().for_each(|held| fit(Arc::make_mut(&mut held.message)));
        Ok(received)
    }

    async fn settle(&self, open: &Opened, mut batch: Settlements) -> Outcomes {
        for (_, settlement) in &mut batch {
            if let Settlement::Retry { after, .. }
            | Settlement::Release { after }
            | Settlement::Uncounted { after, .. } = settlement
            {
                *after = whole_seconds((*after).min(WEEK));
            }
        }
        open.inner.settle(batch).await
    }

    async fn extend(
        &self,
        open: &Opened,
        deliveries: &mut [Delivery],
        lease: Duration,
    ) -> Outcomes {
        kept().check_lease(lease).expect("a case uses only declared leases");
        open.inner.extend(deliveries, lease).await
    }

    async fn depth(&self, store: &Store, queue: &QueueName) -> Result<Depth, TransportError> {
        store.memory.depth(queue).await.map(|_| Depth::default())
    }

    fn offers_access(&self) -> bool {
        false
    }

    async fn feed(
        &self,
        store: &Store,
        queue: &QueueName,
    ) -> Result<Option<Box<dyn DeadLetterFeed>>, TransportError> {
        let feed = store.memory.dead_letter_feed(queue).await?;
        Ok(feed.map(|inner| Box::new(SmallFeed(inner)) as Box<dyn DeadLetterFeed>))
    }
}

/// Dead letters within the same limits.
#[derive(Debug)]
struct SmallFeed(Box<dyn DeadLetterFeed>);

#[async_trait]
impl DeadLetterFeed for SmallFeed {
    async fn next(
        &self,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<DeadLetter>, TransportError> {
        let mut letters = self.0.next(max, wait).await?;
        letters.iter_mut().for_each(|letter| fit(&mut letter.message));
        Ok(letters)
    }

    async fn remove(&self, letters: &[DeadLetterId]) -> Result<(), TransportError> {
        self.0.remove(letters).await
    }

    async fn replay(&self, messages: &[Message]) -> Outcomes {
        self.0.replay(messages).await
    }
}

/// The message as it is stored, if it fits.
fn stored(outgoing: &Outgoing) -> Result<Outgoing, TransportError> {
    kept().check(outgoing)?;
    let mut outgoing = outgoing.clone();
    outgoing.delay = whole_seconds(outgoing.delay);
    let bare = encoded_bytes(&outgoing.message, &Ledger::default());
    if bare > ENCODED_BYTES {
        let id = outgoing.message.id.clone();
        let kind =
            ErrorKind::TooLarge { id, actual_bytes: bare, limit_bytes: kept().max_message_bytes };
        return Err(TransportError::new(kind, "memory", "send"));
    }
    fit(&mut outgoing.message);
    Ok(outgoing)
}

/// Shortens the ledger as storing it did.
fn fit(message: &mut Message) {
    let mut ledger = std::mem::take(&mut message.ledger);
    let fits = ledger.fit(|ledger| encoded_bytes(message, ledger) <= ENCODED_BYTES);
    assert!(fits, "without a history every message fits");
    message.ledger = ledger;
}

/// The approximate size of a message with its envelope and a ledger, in base64.
fn encoded_bytes(message: &Message, ledger: &Ledger) -> usize {
    let names = [
        message.id.as_str().len(),
        message.message_type.as_str().len(),
        message.correlation_id.as_ref().map_or(0, |it| it.as_str().len()),
        message.causation_id.as_ref().map_or(0, |it| it.as_str().len()),
        message.content_type.as_ref().map_or(0, |it| it.as_str().len()),
    ];
    let headers = message.headers.iter().map(|(name, value)| name.len() + value.reveal().len() + 6);
    let tries = ledger
        .history()
        .iter()
        .map(|it| 64 + it.code.as_str().len() + it.detail.reveal().len())
        .sum::<usize>();
    let raw = names.iter().sum::<usize>() + headers.sum::<usize>() + message.body.len() + tries;
    (raw + 128).div_ceil(3) * 4
}

fn whole_seconds(delay: Duration) -> Duration {
    Duration::from_secs(delay.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX))
}

//! Settling deliveries.
//!
//! Completing acknowledges the message. A retry, a release or a dead letter first stores a copy (confirmed and routed),
//! and then acknowledges the original. If the copy was certainly not stored, the delivery stays leased: settling the
//! same receipt again works once the topology or the permission is repaired. If nobody knows whether the copy was
//! stored, the original is requeued, flagged as redelivered. Copies for the dead-letter exchange are published on a
//! channel of their own: a missing exchange closes the channel, and would take the other copies down with it.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Delivery, ErrorKind, Message, QueueName, Reason, Settlement, TransportError};
use lapin::types::ShortString;
use tokio::time::sleep;

use crate::{
    DeadLettering,
    consuming::consumer_pair::ConsumerPair,
    consuming::consumer_timeout::explained,
    consuming::leases::Leases,
    consuming::queue_consumer::Source,
    error::{PROVISION, error, queue_not_found},
    publishing::publisher::{Outcome, Patience, Publication, Published},
    wire::{self, Raw},
};

/// The pause before a message is delivered again that could otherwise loop without a pause: one whose copy may or may
/// not be stored, and a suspect that is released.
const SUSPECT_PAUSE: Duration = Duration::from_secs(1);

type SettleResult = Result<(), TransportError>;

/// One delivery of a batch.
struct BatchItem {
    /// Its index in the batch.
    at: usize,
    delivery: Delivery,
    settlement: Settlement,
}

/// A leased delivery, and what to do before it is acknowledged.
struct HeldDelivery {
    at: usize,
    tag: u64,
    raw: Box<Raw>,
    step: SettleStep,
}

enum SettleStep {
    /// Nothing to do first.
    Ack,
    /// Store a copy first.
    Copy(Box<Publication>),
    /// Reject it: the broker dead-letters it.
    Reject,
}

pub(crate) async fn settle(
    pair: Arc<ConsumerPair>,
    batch: Vec<(Delivery, Settlement)>,
) -> Vec<SettleResult> {
    let mut results: Vec<SettleResult> =
        batch.iter().map(|_| Err(error(ErrorKind::LeaseLost, "settle"))).collect();
    if batch.iter().any(|(_, settlement)| *settlement != Settlement::Complete) {
        // Without it, the direct route is taken; if the broker cannot be asked, it cannot store the copies either.
        let _ = pair.inner.look_up_route(&pair.queue, "settle").await;
    }
    let parts = batch.into_iter().enumerate();
    let parts = parts.map(|(at, (delivery, settlement))| BatchItem { at, delivery, settlement });
    for (epoch, parts) in by_epoch(parts) {
        let source = pair.source_of(&parts[0].delivery.receipt);
        settle_from(&pair, source, epoch, parts, &mut results).await;
        if source == Source::Quarantine {
            // The quarantine consumer starts again only when nothing of it is leased.
            pair.arrived.notify_waiters();
        }
    }
    results
}

/// The parts of each channel. Usually there is one; the quarantine and retired channels are others.
fn by_epoch(parts: impl Iterator<Item = BatchItem>) -> Vec<(i64, Vec<BatchItem>)> {
    let mut channels: Vec<(i64, Vec<BatchItem>)> = Vec::new();
    for part in parts {
        let Some([_, epoch, _]) = part.delivery.receipt.numbers() else { continue };
        match channels.iter_mut().find(|(of, _)| *of == epoch) {
            Some((_, parts)) => parts.push(part),
            None => channels.push((epoch, vec![part])),
        }
    }
    channels
}

/// Settles the deliveries of one channel. The result of a stale receipt stays `LeaseLost`.
async fn settle_from(
    pair: &Arc<ConsumerPair>,
    source: Source,
    epoch: i64,
    parts: Vec<BatchItem>,
    results: &mut [SettleResult],
) {
    let channel = &pair.consumer(source).channel;
    let take = |leases: &mut Leases| -> Vec<_> {
        parts.iter().map(|it| leases.take(&it.delivery.receipt)).collect()
    };
    let Some(taken) = channel.live_leases_of_epoch(epoch, take) else { return };
    let (mut completed, mut others) = (Vec::with_capacity(parts.len()), Vec::new());
    for (BatchItem { at, delivery, settlement }, taken) in parts.into_iter().zip(taken) {
        let Some((tag, raw)) = taken else { continue };
        results[at] = Ok(());
        if settlement == Settlement::Complete {
            completed.push(HeldDelivery { at, tag, raw, step: SettleStep::Ack });
            continue;
        }
        let settlement = delay_suspects(source, settlement);
        let step = step(pair, &raw, delivery.message, settlement);
        others.push(HeldDelivery { at, tag, raw, step });
    }
    if !completed.is_empty() {
        let answer = channel.ack(epoch, tags(&completed)).await;
        record(answer, &completed, results);
    }
    if !others.is_empty() {
        // Boxed: it is large and rare, and the future of a batch of completed messages is moved when it is spawned.
        Box::pin(settle_others(pair, source, epoch, others, results)).await;
    }
}

/// Settles deliveries that need more than an acknowledgement.
async fn settle_others(
    pair: &Arc<ConsumerPair>,
    source: Source,
    epoch: i64,
    mut held: Vec<HeldDelivery>,
    results: &mut [SettleResult],
) {
    let channel = &pair.consumer(source).channel;
    store_copies(pair, &mut held, results).await;
    let (stored, failed): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|it| results[it.at].is_ok());
    keep_or_return(pair, source, epoch, failed, results);
    let is_reject = |it: &HeldDelivery| matches!(it.step, SettleStep::Reject);
    let (rejected, copied): (Vec<_>, Vec<_>) = stored.into_iter().partition(is_reject);
    record(channel.reject(epoch, &tags(&rejected)).await, &rejected, results);
    record(channel.ack(epoch, tags(&copied)).await, &copied, results);
}

/// Records an answer that the broker may not have received: the originals may be redelivered, even if their copies are
/// stored.
fn record(answer: SettleResult, of: &[HeldDelivery], results: &mut [SettleResult]) {
    if let Err(failed) = answer {
        of.iter().for_each(|it| results[it.at] = Err(unknown(&failed)));
    }
}

/// A released suspect goes through its work queue into quarantine again; the pause prevents a hot loop.
fn delay_suspects(source: Source, settlement: Settlement) -> Settlement {
    match settlement {
        Settlement::Release { after } if source == Source::Quarantine => {
            Settlement::Release { after: after.max(SUSPECT_PAUSE) }
        }
        other => other,
    }
}

fn tags(of: &[HeldDelivery]) -> Vec<u64> {
    of.iter().map(|it| it.tag).collect()
}

fn unknown(failed: &TransportError) -> TransportError {
    error(ErrorKind::OutcomeUnknown, "settle").with_source(failed.to_string())
}

fn step(
    pair: &ConsumerPair,
    raw: &Raw,
    mut message: Arc<Message>,
    settlement: Settlement,
) -> SettleStep {
    settlement.record(&mut Arc::make_mut(&mut message).ledger);
    match settlement {
        Settlement::Complete => SettleStep::Ack,
        Settlement::Retry { after, .. }
        | Settlement::Release { after }
        | Settlement::Uncounted { after, .. } => {
            SettleStep::Copy(Box::new(retry_copy(pair, raw, &message, after)))
        }
        Settlement::DeadLetter { .. }
            if pair.inner.options.dead_lettering == DeadLettering::Reject =>
        {
            SettleStep::Reject
        }
        Settlement::DeadLetter { reason, .. } => {
            SettleStep::Copy(Box::new(dead_letter_copy(pair, raw, &message, &reason)))
        }
        _ => SettleStep::Copy(Box::new(retry_copy(pair, raw, &message, Duration::ZERO))),
    }
}

fn retry_copy(pair: &ConsumerPair, raw: &Raw, message: &Message, after: Duration) -> Publication {
    let properties = match after.is_zero() {
        true => wire::requeued(raw, message),
        false => wire::republished(raw, message),
    };
    let direct = pair.publication(Source::Work, raw, properties);
    pair.inner.delayed(direct, &pair.queue, after)
}

fn dead_letter_copy(
    pair: &ConsumerPair,
    raw: &Raw,
    message: &Message,
    reason: &Reason,
) -> Publication {
    let now = pair.inner.options.clock.now();
    let reason = explained(reason, wire::timeouts(raw));
    let stamp = (pair.inner.ids.next(now), now, &reason);
    let properties = wire::dead_lettered(raw, message, stamp);
    Publication {
        exchange: pair.dead.exchange.as_str().into(),
        key: pair.dead.key.as_str().into(),
        ..pair.publication(Source::Work, raw, properties)
    }
}

/// Stores the copies, and records which could not be stored.
async fn store_copies(
    pair: &ConsumerPair,
    held: &mut [HeldDelivery],
    results: &mut [SettleResult],
) {
    // Once the copy is stored, the original only needs its ack.
    let copy = |it: &mut HeldDelivery| match std::mem::replace(&mut it.step, SettleStep::Ack) {
        SettleStep::Copy(copy) => Some((it.at, *copy)),
        other => {
            it.step = other;
            None
        }
    };
    let copies = held.iter_mut().filter_map(copy);
    let (dead, again): (Vec<_>, Vec<_>) =
        copies.partition(|(_, it)| !it.exchange.as_str().is_empty());
    let (dead, again) = tokio::join!(store_some(pair, dead), store_some(pair, again));
    for (at, outcome) in dead.into_iter().chain(again) {
        results[at] = outcome;
    }
}

/// Stores copies for one exchange; returns the result for each index of the batch.
async fn store_some(
    pair: &ConsumerPair,
    copies: Vec<(usize, Publication)>,
) -> Vec<(usize, SettleResult)> {
    if copies.is_empty() {
        return Vec::new();
    }
    let (places, copies): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
    let ways: Vec<_> = copies.iter().map(|it| (it.exchange.clone(), it.key.clone())).collect();
    let outcomes =
        pair.inner.publish_to(&pair.queue, copies, Patience::ThroughAlarms, "settle").await;
    let done = |((exchange, key), outcome): ((ShortString, ShortString), Outcome)| match outcome {
        Ok(Published::Stored) => Ok(()),
        Ok(Published::NotRouted) => Err(not_routed(&pair.queue, exchange.as_str(), key.as_str())),
        Err(failed) if failed.kind == ErrorKind::Unusable && !exchange.as_str().is_empty() => {
            let missing = format!("exchange {:?} is missing; {PROVISION}", exchange.as_str());
            Err(failed.with_source(missing))
        }
        Err(failed) => Err(failed),
    };
    places.into_iter().zip(ways.into_iter().zip(outcomes).map(done)).collect()
}

fn not_routed(queue: &QueueName, exchange: &str, key: &str) -> TransportError {
    let missing = match exchange {
        "" if key == queue.as_str() => return queue_not_found(queue, "settle"),
        "" => format!("queue {key:?} is missing; {PROVISION}"),
        _ => format!("exchange {exchange:?} has no binding for {key:?}; {PROVISION}"),
    };
    error(ErrorKind::Unusable, "settle").with_source(missing)
}

/// Keeps the lease if the copy was certainly not stored. If it may be stored, requeues the original, flagged.
fn keep_or_return(
    pair: &Arc<ConsumerPair>,
    source: Source,
    epoch: i64,
    failed: Vec<HeldDelivery>,
    results: &[SettleResult],
) {
    let mut requeued = Vec::new();
    pair.consumer(source).channel.leases_of_epoch(epoch, |leases| {
        for HeldDelivery { at, tag, raw, .. } in failed {
            match results[at].as_ref().is_err_and(must_return) {
                true => requeued.push(tag),
                false => leases.hold(tag, raw),
            }
        }
    });
    if !requeued.is_empty() {
        let pair = pair.clone();
        tokio::spawn(async move {
            sleep(SUSPECT_PAUSE).await;
            pair.consumer(source).channel.nack(epoch, &requeued).await;
        });
    }
}

/// Whether settling it again is pointless: its copy may be stored already, or can never be.
fn must_return(failed: &TransportError) -> bool {
    matches!(
        failed.kind,
        ErrorKind::OutcomeUnknown
            | ErrorKind::TooLarge { .. }
            | ErrorKind::Invalid(_)
            | ErrorKind::Unsupported(_)
    )
}

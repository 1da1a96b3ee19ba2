//! What becomes of deliveries.
//!
//! Completing is an acknowledgement; everything else stores a copy first (confirmed and routed) and then
//! acknowledges the original. Where the copy was certainly not stored the delivery stays leased, whatever the
//! reason: settling the same receipt again works once the topology or the permission is repaired. Only where
//! nobody knows whether the copy was stored does the original go back to its queue, flagged as redelivered.
//! Copies for different exchanges are published apart: a missing exchange ends the channel for its own only.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Delivery, ErrorKind, Message, QueueName, Reason, Settlement, TransportError};
use lapin::types::ShortString;
use tokio::time::sleep;

use crate::{
    DeadLettering,
    consumer::Source,
    error::{PROVISION, error, no_queue},
    lane::Lane,
    publisher::{Outcome, Publication, Published},
    topology::DEAD_EXCHANGE,
    wire::{self, Raw},
};

/// How long a message rests that would come back at once and perhaps again and again: one whose copy may or
/// may not be stored, and a suspect that is handed back.
const REST: Duration = Duration::from_secs(1);

type Done = Result<(), TransportError>;

/// One delivery of a batch.
struct Part {
    /// Its place in the batch.
    at: usize,
    delivery: Delivery,
    settlement: Settlement,
}

/// One that is held, and what is to be done before it is acknowledged.
struct Held {
    at: usize,
    tag: u64,
    raw: Box<Raw>,
    step: Step,
}

enum Step {
    /// Nothing.
    Ack,
    /// A copy is to be stored.
    Copy(Box<Publication>),
    /// The broker is to move it.
    Reject,
}

pub(crate) async fn settle(lane: Arc<Lane>, batch: Vec<(Delivery, Settlement)>) -> Vec<Done> {
    let mut results: Vec<Done> =
        batch.iter().map(|_| Err(error(ErrorKind::LeaseLost, "settle"))).collect();
    let parts = batch.into_iter().enumerate();
    let parts = parts.map(|(at, (delivery, settlement))| Part { at, delivery, settlement });
    let is_quarantined = |part: &Part| lane.source_of(&part.delivery.receipt) == Source::Quarantine;
    let (quarantined, ordinary): (Vec<_>, Vec<_>) = parts.partition(is_quarantined);
    settle_from(&lane, Source::Work, ordinary, &mut results).await;
    if !quarantined.is_empty() {
        settle_from(&lane, Source::Quarantine, quarantined, &mut results).await;
        // Its consumer may have waited for this to be started again.
        lane.arrived.notify_waiters();
    }
    results
}

/// Settles what is held on one channel. What is not held there is left as it is: lost.
async fn settle_from(lane: &Arc<Lane>, source: Source, parts: Vec<Part>, results: &mut [Done]) {
    let line = &lane.consumer(source).line;
    if line.live_channel().is_none() {
        return;
    }
    let (epoch, taken) = line.leases(|leases| {
        let taken: Vec<_> = parts.iter().map(|it| leases.take(&it.delivery.receipt)).collect();
        (leases.epoch(), taken)
    });
    let mut held = Vec::new();
    for (Part { at, delivery, settlement }, taken) in parts.into_iter().zip(taken) {
        if let Some((tag, raw)) = taken {
            results[at] = Ok(());
            let settlement = unhurried(source, settlement);
            let step = step(lane, &raw, delivery.message, settlement);
            held.push(Held { at, tag, raw, step });
        }
    }
    store_copies(lane, &mut held, results).await;
    let (stored, failed): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|it| results[it.at].is_ok());
    keep_or_return(lane, source, epoch, failed, results);
    let is_reject = |it: &Held| matches!(it.step, Step::Reject);
    let (rejected, done): (Vec<_>, Vec<_>) = stored.into_iter().partition(is_reject);
    let answers = [
        (line.reject(epoch, &tags(&rejected)).await, rejected),
        (line.ack(epoch, tags(&done)).await, done),
    ];
    for (answer, of) in answers {
        if let Err(failed) = answer {
            // The original may come back, though what was asked for was or was not done.
            of.iter().for_each(|it| results[it.at] = Err(unknown(&failed)));
        }
    }
}

/// A suspect that is handed back goes through its work queue into quarantine again: not in a hot loop.
fn unhurried(source: Source, settlement: Settlement) -> Settlement {
    match settlement {
        Settlement::Release { after } if source == Source::Quarantine => {
            Settlement::Release { after: after.max(REST) }
        }
        other => other,
    }
}

fn tags(of: &[Held]) -> Vec<u64> {
    of.iter().map(|it| it.tag).collect()
}

fn unknown(failed: &TransportError) -> TransportError {
    error(ErrorKind::OutcomeUnknown, "settle").with_source(failed.to_string())
}

fn step(lane: &Lane, raw: &Raw, mut message: Arc<Message>, settlement: Settlement) -> Step {
    if settlement == Settlement::Complete {
        return Step::Ack;
    }
    settlement.record(&mut Arc::make_mut(&mut message).ledger);
    match settlement {
        Settlement::Complete => Step::Ack,
        Settlement::Retry { after, .. }
        | Settlement::Release { after }
        | Settlement::Uncounted { after, .. } => {
            Step::Copy(Box::new(again(lane, raw, &message, after)))
        }
        Settlement::DeadLetter { .. }
            if lane.inner.options.dead_lettering == DeadLettering::Reject =>
        {
            Step::Reject
        }
        Settlement::DeadLetter { reason, .. } => {
            Step::Copy(Box::new(aside(lane, raw, &message, &reason)))
        }
    }
}

fn again(lane: &Lane, raw: &Raw, message: &Message, after: Duration) -> Publication {
    let properties = match after.is_zero() {
        true => wire::returned(raw, message),
        false => wire::forward(raw, message),
    };
    let direct = lane.publication(Source::Work, raw, properties);
    lane.inner.delayed(direct, &lane.queue, after)
}

fn aside(lane: &Lane, raw: &Raw, message: &Message, reason: &Reason) -> Publication {
    let now = lane.inner.options.clock.now();
    let stamp = (lane.inner.ids.next(now), now, reason);
    let properties = wire::set_aside(raw, message, stamp);
    Publication {
        exchange: DEAD_EXCHANGE.into(),
        ..lane.publication(Source::Work, raw, properties)
    }
}

/// Stores the copies, and notes which could not be.
async fn store_copies(lane: &Lane, held: &mut [Held], results: &mut [Done]) {
    // Once its copy is stored there is nothing to do before it is acknowledged.
    let copy = |it: &mut Held| match std::mem::replace(&mut it.step, Step::Ack) {
        Step::Copy(copy) => Some((it.at, *copy)),
        other => {
            it.step = other;
            None
        }
    };
    let copies = held.iter_mut().filter_map(copy);
    let (dead, again): (Vec<_>, Vec<_>) =
        copies.partition(|(_, it)| !it.exchange.as_str().is_empty());
    let (dead, again) = tokio::join!(store_some(lane, dead), store_some(lane, again));
    for (at, outcome) in dead.into_iter().chain(again) {
        results[at] = outcome;
    }
}

/// Stores copies for one exchange; says of each place in the batch what came of it.
async fn store_some(lane: &Lane, copies: Vec<(usize, Publication)>) -> Vec<(usize, Done)> {
    if copies.is_empty() {
        return Vec::new();
    }
    let (places, copies): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
    let ways: Vec<_> = copies.iter().map(|it| (it.exchange.clone(), it.key.clone())).collect();
    let outcomes = lane.inner.publish_to(&lane.queue, copies, "settle").await;
    let done = |((exchange, key), outcome): ((ShortString, ShortString), Outcome)| match outcome {
        Ok(Published::Stored) => Ok(()),
        Ok(Published::NotRouted) => Err(not_routed(&lane.queue, exchange.as_str(), key.as_str())),
        Err(failed) if failed.kind == ErrorKind::Unusable && exchange.as_str() == DEAD_EXCHANGE => {
            let missing = format!("exchange {DEAD_EXCHANGE:?} is missing; {PROVISION}");
            Err(failed.with_source(missing))
        }
        Err(failed) => Err(failed),
    };
    places.into_iter().zip(ways.into_iter().zip(outcomes).map(done)).collect()
}

fn not_routed(queue: &QueueName, exchange: &str, key: &str) -> TransportError {
    let missing = match exchange {
        "" if key == queue.as_str() => return no_queue(queue, "settle"),
        "" => format!("queue {key:?} is missing; {PROVISION}"),
        _ => format!("exchange {exchange:?} has no binding for {key:?}; {PROVISION}"),
    };
    error(ErrorKind::Unusable, "settle").with_source(missing)
}

/// Keeps the leases of what was certainly not stored. What may be stored goes back to its queue, flagged.
fn keep_or_return(
    lane: &Arc<Lane>,
    source: Source,
    epoch: i64,
    failed: Vec<Held>,
    results: &[Done],
) {
    let mut returned = Vec::new();
    lane.consumer(source).line.leases_of(epoch, |leases| {
        for Held { at, tag, raw, .. } in failed {
            match results[at].as_ref().is_err_and(gives_up) {
                true => returned.push(tag),
                false => leases.hold(tag, raw),
            }
        }
    });
    if !returned.is_empty() {
        let lane = lane.clone();
        tokio::spawn(async move {
            sleep(REST).await;
            lane.consumer(source).line.nack(epoch, &returned).await;
        });
    }
}

/// Whether nobody will settle it again: its copy may be stored, or never can be.
fn gives_up(failed: &TransportError) -> bool {
    matches!(
        failed.kind,
        ErrorKind::OutcomeUnknown
            | ErrorKind::TooLarge { .. }
            | ErrorKind::Invalid(_)
            | ErrorKind::Unsupported(_)
    )
}

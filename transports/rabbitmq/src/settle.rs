//! What becomes of deliveries.
//!
//! A copy is stored before its original is acknowledged. What could not be stored for the time being stays
//! held, so that it can be settled again; what could not be stored at all goes back to its queue.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Delivery, ErrorKind, Message, Reason, Settlement, TransportError};
use tokio::time::sleep;

use crate::{
    DeadLettering,
    error::error,
    lane::Lane,
    line::Line,
    publisher::{Publication, Published},
    topology::DEAD_EXCHANGE,
    wire::{self, Raw},
};

/// How long a message that cannot be settled rests before it goes back: a fault that lasts must not make
/// it go round in circles as fast as it can.
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
    let is_alone =
        |part: &Part| std::ptr::eq(lane.line_of(&part.delivery.receipt), &lane.alone.line);
    let (alone, ahead): (Vec<_>, Vec<_>) = parts.partition(is_alone);
    settle_on(&lane, |lane| &lane.ahead, ahead, &mut results).await;
    settle_on(&lane, |lane| &lane.alone.line, alone, &mut results).await;
    results
}

/// Settles what is held on one channel. What is not held there is left as it is: lost.
async fn settle_on(
    lane: &Arc<Lane>,
    line_of: fn(&Lane) -> &Line,
    parts: Vec<Part>,
    results: &mut [Done],
) {
    let line = line_of(lane);
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
            let step = step(lane, &raw, delivery.message, settlement);
            held.push(Held { at, tag, raw, step });
        }
    }
    store_copies(lane, &mut held, results).await;
    let (stored, failed): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|it| results[it.at].is_ok());
    keep_or_return(lane, line_of, epoch, failed, results);
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
    lane.inner.delayed(lane.to_queue(raw, properties), &lane.queue, after)
}

fn aside(lane: &Lane, raw: &Raw, message: &Message, reason: &Reason) -> Publication {
    let now = lane.inner.options.clock.now();
    let stamp = (lane.inner.ids.next(now), now, reason);
    let properties = wire::set_aside(raw, message, stamp);
    Publication { exchange: DEAD_EXCHANGE.into(), ..lane.to_queue(raw, properties) }
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
    let (places, copies): (Vec<_>, Vec<_>) = held.iter_mut().filter_map(copy).unzip();
    if copies.is_empty() {
        return;
    }
    let ways: Vec<_> = copies.iter().map(|it| (it.exchange.clone(), it.key.clone())).collect();
    let outcomes = lane.inner.publish_to(&lane.queue, copies, "settle").await;
    for ((at, (exchange, key)), outcome) in places.into_iter().zip(ways).zip(outcomes) {
        results[at] = match outcome {
            Ok(Published::Stored) => Ok(()),
            Ok(Published::NotRouted) => Err(not_routed(exchange.as_str(), key.as_str())),
            Err(failed) => Err(failed),
        };
    }
}

fn not_routed(exchange: &str, key: &str) -> TransportError {
    let missing = match exchange {
        "" => format!("there is no queue {key:?}"),
        _ => format!("exchange {exchange:?} leads nowhere from here"),
    };
    error(ErrorKind::Unusable, "settle")
        .with_source(format!("{missing}; repair the queue, or run `bezoar provision`"))
}

/// Keeps what may be settled a little later. The rest goes back to its queue, flagged.
fn keep_or_return(
    lane: &Arc<Lane>,
    line_of: fn(&Lane) -> &Line,
    epoch: i64,
    failed: Vec<Held>,
    results: &[Done],
) {
    let mut returned = Vec::new();
    line_of(lane).leases_of(epoch, |leases| {
        for Held { at, tag, raw, .. } in failed {
            match results[at].as_ref().is_err_and(may_pass) {
                true => leases.hold(tag, raw),
                false => returned.push(tag),
            }
        }
    });
    if !returned.is_empty() {
        let lane = lane.clone();
        tokio::spawn(async move {
            sleep(REST).await;
            line_of(&lane).nack(epoch, &returned).await;
        });
    }
}

fn may_pass(failed: &TransportError) -> bool {
    failed.is_transient() || failed.kind == ErrorKind::Full
}

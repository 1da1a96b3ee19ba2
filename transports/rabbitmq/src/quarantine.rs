//! Which messages are suspects, and how they reach the quarantine queue.
//!
//! The broker flags a message that was sent before, but cannot say whether a handler had it or it was only
//! prefetched. So the first flag costs no isolation: the message is counted in a copy and runs among the
//! others. The second flag moves it to the quarantine queue, whose consumer has a prefetch of one: there each
//! flag means one delivery, and counting is exact. A copy is always stored before its original is
//! acknowledged, so a crash in between leaves two messages, never none. An outcome clears the count.

use std::{sync::Arc, time::Duration};

use bezoar_core::{ErrorKind, TransportError};
use tokio::time::sleep;

use crate::{
    consumer::Source,
    error::{PROVISION, error, no_queue},
    lane::Lane,
    leases::Arrived,
    publisher::{Publication, Published},
    wire,
};

/// So many earlier deliveries without an outcome make a message a suspect.
const SUSPECT_AFTER: u32 = 2;
/// The pause between two tries to store copies.
const PAUSE: Duration = Duration::from_millis(500);
/// The same if it is unknown whether copies were stored.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(5);

/// What to do with a message that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    HandOut,
    /// Store a copy in one of the two queues, perhaps with one more delivery counted.
    Move {
        to: Source,
        counted: bool,
    },
}

impl Arrival {
    /// By where it comes from, whether the broker flags it, and its earlier deliveries without an outcome.
    pub(crate) fn decide(from: Source, flagged: bool, without_outcome: u32) -> Self {
        use Source::{Quarantine, Work};
        match (from, flagged, without_outcome) {
            // Suspects are never handed out from the work queue, so that a flag there counts nothing.
            (Work, _, SUSPECT_AFTER..) => Self::Move { to: Quarantine, counted: false },
            (Work, false, _) | (Quarantine, false, _) => Self::HandOut,
            (Work, true, 0) => Self::Move { to: Work, counted: true },
            (Work | Quarantine, true, _) => Self::Move { to: Quarantine, counted: true },
        }
    }
}

/// A message on its way to a queue that it was not sent to.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) arrived: Arrived,
    pub(crate) to: Source,
    pub(crate) counted: bool,
}

/// A copy to be stored before the original with this tag is acknowledged.
struct Copy {
    tag: u64,
    to: Source,
    publication: Publication,
}

impl Lane {
    /// Moves messages that came from `from`, in the background, for as long as its channel lives.
    pub(crate) fn move_all(self: &Arc<Self>, from: Source, epoch: i64, moving: Vec<Moving>) {
        if moving.is_empty() {
            return;
        }
        let lane = self.clone();
        tokio::spawn(async move {
            let mut copies: Vec<_> = moving.into_iter().map(|it| lane.copy(it)).collect();
            while lane.consumer(from).line.epoch() == epoch && !copies.is_empty() {
                copies = lane.store_moved(from, epoch, copies).await;
            }
        });
    }

    fn copy(&self, Moving { arrived, to, counted }: Moving) -> Copy {
        let Arrived { tag, raw, mut message } = arrived;
        if counted {
            message.ledger.acquire();
        }
        let publication = self.publication(to, &raw, wire::returned(&raw, &message));
        Copy { tag, to, publication }
    }

    /// Waits until the originals of all copies that are stored are acknowledged. A copy that is handed out
    /// before could crash this process and leave both: a crasher would double each time.
    pub(crate) async fn moves_end(&self) {
        drop(self.moves.write().await);
    }

    /// Stores copies and acknowledges their originals. Says which are left, after a pause.
    async fn store_moved(&self, from: Source, epoch: i64, copies: Vec<Copy>) -> Vec<Copy> {
        let moved = self.moves.read().await;
        let publications = copies.iter().map(|it| it.publication.clone()).collect();
        let outcomes = self.inner.publisher.publish(publications, "receive").await;
        let (mut stored, mut left, mut problem) = (Vec::new(), Vec::new(), None);
        for (copy, outcome) in copies.into_iter().zip(outcomes) {
            match outcome {
                Ok(Published::Stored) => {
                    stored.push(copy.tag);
                    continue;
                }
                Ok(Published::NotRouted) => problem = Some(self.missing(copy.to)),
                Err(failed) => problem = Some(failed),
            }
            left.push(copy);
        }
        // If the channel was lost meanwhile, these return as well: at least once, and flagged.
        let _ = self.consumer(from).line.ack(epoch, stored).await;
        drop(moved);
        self.arrived.notify_waiters();
        if let Some(problem) = problem {
            let unknown = problem.kind == ErrorKind::OutcomeUnknown;
            self.cannot_move(problem);
            // A copy that may be stored is not sent again in a hurry: each time it may become one more.
            sleep(if unknown { UNKNOWN_PAUSE } else { PAUSE }).await;
        }
        left
    }

    /// Whoever receives is told of what does not pass by itself.
    fn cannot_move(&self, problem: TransportError) {
        tracing::warn!(queue = %self.queue, error = %problem, "cannot record a redelivery");
        if !problem.is_transient() && problem.kind != ErrorKind::OutcomeUnknown {
            self.set_fault(problem);
        }
    }

    /// The error for one of the two queues that does not exist.
    pub(crate) fn missing(&self, source: Source) -> TransportError {
        match source {
            Source::Work => no_queue(&self.queue, "receive"),
            Source::Quarantine => {
                let missing = format!("queue {:?} is missing; {PROVISION}", self.quarantine.name);
                error(ErrorKind::Unusable, "receive").with_source(missing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_lost_delivery_makes_a_suspect_and_counting_is_exact_from_then_on() {
        use Source::{Quarantine, Work};
        let moved = |to, counted| Arrival::Move { to, counted };
        for (from, flagged, without_outcome, expected) in [
            (Work, false, 0, Arrival::HandOut),
            (Work, false, 1, Arrival::HandOut),
            (Work, true, 0, moved(Work, true)),
            (Work, true, 1, moved(Quarantine, true)),
            (Work, true, 2, moved(Quarantine, false)),
            (Work, false, 2, moved(Quarantine, false)),
            (Work, false, 9, moved(Quarantine, false)),
            (Quarantine, false, 2, Arrival::HandOut),
            (Quarantine, false, 0, Arrival::HandOut),
            (Quarantine, true, 2, moved(Quarantine, true)),
        ] {
            let arrival = Arrival::decide(from, flagged, without_outcome);
            assert_eq!(arrival, expected, "{from:?} {flagged} {without_outcome}");
        }
    }
}

//! Quarantine: which messages are suspects, and how they reach the quarantine queue.
//!
//! The broker flags a redelivered message, but cannot tell whether a handler had it or it was only prefetched. So the
//! first flag does not isolate: a copy with a raised count goes back to the work queue and runs among the others. The
//! second flag moves the message to the quarantine queue, whose consumer has a prefetch of 1: there each flag stands
//! for one delivery, and counting is exact. A copy is stored before its original is acknowledged, so a crash in between
//! leaves two messages, never none. So that the message itself cannot be the cause of that crash and multiply, a counted
//! copy is handed out only once the broker is known to have removed its original. An outcome (a retry, a failure) resets
//! the count.

use std::{sync::Arc, time::Duration};

use bezoar_core::{ErrorKind, TransportError};
use tokio::time::sleep;

use crate::{
    consuming::consumer_pair::ConsumerPair,
    consuming::leases::PrefetchedMessage,
    consuming::queue_consumer::Source,
    error::{PROVISION, error, queue_not_found},
    publishing::publisher::{Patience, Publication, Published, Readiness},
    wire,
};

/// A message is a suspect after this many deliveries without an outcome.
const SUSPECT_AFTER: u32 = 2;
/// The pause before storing copies is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// The same if it is unknown whether the copies were stored.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(5);

/// What to do with a message that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArrivalAction {
    HandOut,
    /// Store a copy in one of the two queues, perhaps with one more delivery counted.
    Move {
        to: Source,
        counted: bool,
    },
}

impl ArrivalAction {
    /// Decides by the queue that it comes from, the redelivered flag, and its deliveries without an outcome so far.
    pub(crate) fn decide(from: Source, flagged: bool, without_outcome: u32) -> Self {
        use Source::{Quarantine, Work};
        match (from, flagged, without_outcome) {
            // Suspects are never handed out from the work queue, so a flag there does not stand for a delivery.
            (Work, _, SUSPECT_AFTER..) => Self::Move { to: Quarantine, counted: false },
            (Work, false, _) | (Quarantine, false, _) => Self::HandOut,
            (Work, true, 0) => Self::Move { to: Work, counted: true },
            (Work | Quarantine, true, _) => Self::Move { to: Quarantine, counted: true },
        }
    }
}

/// A message to be moved to one of the two queues.
#[derive(Debug)]
pub(crate) struct MessageToMove {
    pub(crate) arrived: PrefetchedMessage,
    pub(crate) to: Source,
    pub(crate) counted: bool,
}

/// A copy, to be stored before the original with this tag is acknowledged.
struct PendingCopy {
    tag: u64,
    to: Source,
    publication: Publication,
}

/// The problem that was logged last: one that lasts is tried again twice a second, and logged once.
#[derive(Debug, Default)]
struct LoggedProblem(Option<String>);

impl LoggedProblem {
    /// Whether this problem differs from the one before. It is the one before from now on.
    fn is_news(&mut self, problem: &TransportError) -> bool {
        let text = Some(problem.to_string());
        std::mem::replace(&mut self.0, text.clone()) != text
    }
}

impl ConsumerPair {
    /// Moves messages of `from` in the background, for as long as its channel lives.
    pub(crate) fn move_all(self: &Arc<Self>, from: Source, epoch: i64, moving: Vec<MessageToMove>) {
        if moving.is_empty() {
            return;
        }
        let pair = self.clone();
        tokio::spawn(async move {
            pair.forget_retired_channels().await; // the broker may have taken these back with one
            let mut copies: Vec<_> = moving.into_iter().map(|it| pair.copy(it)).collect();
            let mut logged = LoggedProblem::default();
            while pair.consumer(from).channel.has_epoch(epoch) && !copies.is_empty() {
                let (left, problem) = pair.store_moved(from, epoch, copies).await;
                if let Some(problem) = problem {
                    pair.cannot_move(problem, &mut logged).await;
                }
                copies = left;
            }
        });
    }

    fn copy(&self, MessageToMove { arrived, to, counted }: MessageToMove) -> PendingCopy {
        let PrefetchedMessage { tag, raw, mut message } = arrived;
        let mut timeouts = wire::timeouts(&raw);
        if counted {
            message.ledger.acquire();
            timeouts = self.timeouts.count(&raw);
        }
        let properties = wire::with_timeouts(wire::requeued(&raw, &message), timeouts);
        let publication = self.publication(to, &raw, properties);
        PendingCopy { tag, to, publication }
    }

    /// Waits until the broker has removed the original of every stored copy. A copy that is handed out earlier could crash
    /// this process and leave both: a message that crashes its process would multiply. Other consumers of this process
    /// may have stored the copy.
    pub(crate) async fn wait_for_moves(&self) {
        for pair in self.inner.consumers_of(&self.queue) {
            drop(pair.moves.write().await);
        }
    }

    /// Stores copies and acknowledges their originals. Returns those that could not be stored, and why.
    async fn store_moved(
        &self,
        from: Source,
        epoch: i64,
        copies: Vec<PendingCopy>,
    ) -> (Vec<PendingCopy>, Option<TransportError>) {
        // Copies that are written during an alarm would be stored when it ends, whatever happens to their originals
        // meanwhile. Those that were written when it began are waited for.
        if self.inner.publisher.readiness("receive").await == Readiness::Blocked {
            sleep(PAUSE).await;
            return (copies, None);
        }
        let moved = self.moves.read().await;
        let publications = copies.iter().map(|it| it.publication.clone()).collect();
        let outcomes =
            self.inner.publisher.publish(publications, Patience::ThroughAlarms, "receive").await;
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
        // If the channel was lost meanwhile, the originals are redelivered too, flagged: at least once.
        let removed = self.consumer(from).channel.ack_and_wait(epoch, stored);
        let _ = self.connection.current().with_timeout(removed, "receive").await;
        drop(moved);
        self.arrived.notify_waiters();
        (left, problem)
    }

    /// Logs the problem if it is another one than before, and pauses; the next `receive` reports it unless it is transient.
    async fn cannot_move(&self, problem: TransportError, logged: &mut LoggedProblem) {
        if logged.is_news(&problem) {
            tracing::warn!(queue = %self.queue, error = %problem, "cannot record a redelivery, retrying");
        }
        let unknown = problem.kind == ErrorKind::OutcomeUnknown;
        if !problem.is_transient() && !unknown {
            self.set_background_error(problem);
        }
        // A copy that may be stored is not sent again at once: each time may add a duplicate.
        sleep(if unknown { UNKNOWN_PAUSE } else { PAUSE }).await;
    }

    /// The error if one of the two queues does not exist.
    pub(crate) fn missing(&self, source: Source) -> TransportError {
        match source {
            Source::Work => queue_not_found(&self.queue, "receive"),
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
    fn a_problem_is_news_once() {
        let mut logged = LoggedProblem::default();
        let problem = |kind| error(kind, "receive");
        let kinds = [ErrorKind::Unavailable, ErrorKind::Unavailable, ErrorKind::NotAuthorized];
        let news = kinds.map(|kind| logged.is_news(&problem(kind)));
        assert_eq!(news, [true, false, true]);
        assert!(logged.is_news(&problem(ErrorKind::Unavailable)), "it is back");
    }

    #[test]
    fn the_second_redelivery_makes_a_suspect_and_counting_is_exact_from_then_on() {
        use Source::{Quarantine, Work};
        let moved = |to, counted| ArrivalAction::Move { to, counted };
        for (from, flagged, without_outcome, expected) in [
            (Work, false, 0, ArrivalAction::HandOut),
            (Work, false, 1, ArrivalAction::HandOut),
            (Work, true, 0, moved(Work, true)),
            (Work, true, 1, moved(Quarantine, true)),
            (Work, true, 2, moved(Quarantine, false)),
            (Work, false, 2, moved(Quarantine, false)),
            (Work, false, 9, moved(Quarantine, false)),
            (Quarantine, false, 2, ArrivalAction::HandOut),
            (Quarantine, false, 0, ArrivalAction::HandOut),
            (Quarantine, true, 2, moved(Quarantine, true)),
        ] {
            let arrival = ArrivalAction::decide(from, flagged, without_outcome);
            assert_eq!(arrival, expected, "{from:?} {flagged} {without_outcome}");
        }
    }
}

//! Moves the dead letters of a broker's queue into the catalogue, and sends replayed ones to the broker.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Code, DeadLetterFeed, Delivery, ErrorKind, Message, Pauses, QueueAdmin, QueueName, Reason,
    Settlement, SubscribeOptions, Subscription, Transport, TransportError,
    catalogue::{Catalogue, CatalogueError},
};
use bezoar_runtime::Shutdown;
use tokio::time::sleep;

/// How many messages are moved at a time.
const BATCH: NonZeroU32 = NonZeroU32::new(200).expect("200 is not 0");
/// How long to wait for messages before checking for a shutdown.
const WAIT: Duration = Duration::from_secs(5);
/// The first and the longest pause after an error.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Moves the dead letters of one broker queue into a catalogue, and sends replayed ones to the broker.
///
/// A dead letter is removed from the broker only once the catalogue has it. If it is delivered again, the catalogue
/// recognizes it; if that is not certain, it keeps both and marks the second one. A replayed message leaves the
/// catalogue's store only once the broker has it: a crash in between may send it twice, the second time flagged as
/// redelivered.
#[derive(Debug, Clone)]
pub struct Intake {
    /// The broker.
    pub broker: Arc<dyn QueueAdmin>,
    /// The queue, which has the same name on both sides.
    pub queue: QueueName,
    /// The catalogue that stores the dead letters.
    pub catalogue: Arc<dyn Catalogue>,
    /// The catalogue's store, in whose queues replayed messages wait.
    pub store: Arc<dyn Transport>,
    /// How the catalogue learns the outcome of a replayed message.
    pub outcomes: Outcomes,
}

/// How the catalogue learns the outcome of a message that was replayed to its broker. Exhaustive: there are no other
/// choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcomes {
    /// The consumer reports it, see [`Reporting`](crate::Reporting).
    Reported,
    /// Nobody reports it: the message counts as completed once the broker has it.
    Unheard,
}

impl Intake {
    /// Runs until shutdown, then finishes the current batch. Errors of either side are logged and retried.
    pub async fn run(self, shutdown: Shutdown) {
        let taking = self
            .steadily(&shutdown, "fetch dead letters from the broker", || self.take_in(&shutdown));
        let giving = self
            .steadily(&shutdown, "send replayed messages to the broker", || self.replay(&shutdown));
        tokio::join!(taking, giving);
    }

    /// The same, but takes in no dead letters: somebody else works on them. Replayed messages still reach the broker.
    pub async fn run_replays(self, shutdown: Shutdown) {
        let what = "send replayed messages to the broker";
        self.steadily(&shutdown, what, || self.replay(&shutdown)).await;
    }

    /// Repeats `work` until it ends without an error.
    async fn steadily<F>(&self, shutdown: &Shutdown, what: &'static str, work: impl Fn() -> F)
    where
        F: Future<Output = Result<(), IntakeError>>,
    {
        let mut pauses = Pauses::new(PAUSES.0, PAUSES.1);
        while !shutdown.is_draining() {
            let started = tokio::time::Instant::now();
            let Err(error) = work().await else { return };
            if started.elapsed() > PAUSES.1 {
                pauses.reset();
            }
            let pause = pauses.lengthen();
            let (error, source) = (&error.0, error.source());
            tracing::warn!(queue = %self.queue, %error, source, wait_ms = pause.as_millis() as u64, "cannot {what}, retrying");
            tokio::select! { () = sleep(pause) => (), () = shutdown.draining() => () }
        }
    }

    async fn feed(&self) -> Result<Box<dyn DeadLetterFeed>, IntakeError> {
        let feed = self.broker.dead_letter_feed(&self.queue).await?;
        feed.ok_or_else(|| {
            let kind = ErrorKind::Unsupported("dead letters that are taken elsewhere");
            IntakeError::from(TransportError::new(kind, "broker", "take in"))
        })
    }

    async fn take_in(&self, shutdown: &Shutdown) -> Result<(), IntakeError> {
        self.catalogue.adopt(&self.queue).await?;
        let feed = self.feed().await?;
        loop {
            let letters = tokio::select! {
                biased;
                () = shutdown.draining() => return Ok(()),
                letters = feed.next(BATCH, WAIT) => letters?,
            };
            if letters.is_empty() {
                continue;
            }
            let ids: Vec<_> = letters.iter().map(|letter| letter.id).collect();
            let new = self.catalogue.take_in(&self.queue, letters).await?;
            self.catalogue.removing(&self.queue, &ids).await?;
            feed.remove(&ids).await?;
            tracing::debug!(queue = %self.queue, new, "fetched dead letters from the broker");
        }
    }

    async fn replay(&self, shutdown: &Shutdown) -> Result<(), IntakeError> {
        self.catalogue.adopt(&self.queue).await?;
        let feed = self.feed().await?;
        let options = SubscribeOptions::default().with_prefetch(BATCH);
        let waiting = self.store.subscribe(&self.queue, options).await?;
        loop {
            let deliveries = tokio::select! {
                biased;
                () = shutdown.draining() => return Ok(()),
                deliveries = waiting.receive(BATCH, WAIT) => deliveries?,
            };
            if !deliveries.is_empty() {
                self.replay_some(feed.as_ref(), waiting.as_ref(), deliveries).await?;
            }
        }
    }

    async fn replay_some(
        &self,
        feed: &dyn DeadLetterFeed,
        waiting: &dyn Subscription,
        deliveries: Vec<Delivery>,
    ) -> Result<(), IntakeError> {
        let messages: Vec<_> = deliveries.iter().map(|delivery| sent(&delivery.message)).collect();
        let results = feed.replay(&messages).await;
        let mut failure = None;
        let (mut settled, mut given) = (Vec::with_capacity(deliveries.len()), Vec::new());
        for (delivery, result) in deliveries.into_iter().zip(results) {
            let settlement = match result {
                Ok(()) => {
                    let replay = delivery.message.ledger.replay;
                    given.extend(replay.map(|replay| (replay, delivery.message.id.clone())));
                    Settlement::Complete
                }
                Err(error) if never_passes(&error) => {
                    let words =
                        "the broker does not accept it as it is; edit it and replay it again";
                    let reason = Reason::new(Code::from_static("not-given-back"), words);
                    Settlement::DeadLetter { reason, tries: Vec::new() }
                }
                Err(error) => {
                    failure = Some(error);
                    Settlement::Release { after: PAUSES.0 }
                }
            };
            settled.push((delivery, settlement));
        }
        // Reported before the settlement, because a crash after the settlement would lose the
        // report.
        if self.outcomes == Outcomes::Unheard && !given.is_empty() {
            self.catalogue.completed(&self.queue, given).await?;
        }
        for result in waiting.settle(settled).await {
            result?;
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Whether the message itself is at fault. It becomes a dead letter again, so that it does not block the others.
fn never_passes(error: &TransportError) -> bool {
    matches!(error.kind, ErrorKind::Invalid(_) | ErrorKind::TooLarge { .. })
}

/// The message as the broker gets it. Receiving it from the store does not count as a delivery there. If it was
/// received before, the count says that the broker may already have it.
fn sent(message: &Message) -> Message {
    let mut message = message.clone();
    message.ledger.acquired = message.ledger.acquired.saturating_sub(1);
    message
}

/// An error of either side.
struct IntakeError(CatalogueError);

impl<E: Into<CatalogueError>> From<E> for IntakeError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntakeError {
    /// The underlying error. Errors of transports contain no content.
    fn source(&self) -> Option<String> {
        let error: &dyn std::error::Error = &self.0;
        error.source().map(ToString::to_string)
    }
}

//! Between the dead letters of a broker's queue and a catalogue: taken in, and given back when they are replayed.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bezoar_core::{
    Code, DeadLetterFeed, Delivery, ErrorKind, Message, QueueAdmin, QueueName, Reason, Settlement,
    SubscribeOptions, Subscription, Transport, TransportError,
    catalogue::{Catalogue, CatalogueError},
};
use bezoar_runtime::Shutdown;
use tokio::time::sleep;

/// How many are taken or given back at a time.
const BATCH: NonZeroU32 = NonZeroU32::new(200).expect("200 is not 0");
/// How long to wait for something to do before looking whether to stop.
const WAIT: Duration = Duration::from_secs(5);
/// The first and the longest pause after trouble.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Takes the dead letters of one queue of a broker into a catalogue, and gives back those that are replayed.
///
/// A letter is removed from the broker only after the catalogue has it; one that comes again is known by its id.
/// A message that is replayed leaves the catalogue's store only after the broker has it: a crash in between may
/// send it twice, the second time flagged as redelivered.
#[derive(Debug, Clone)]
pub struct Intake {
    /// Where the broker's queues are.
    pub broker: Arc<dyn QueueAdmin>,
    /// The queue, by the name that both know it by.
    pub queue: QueueName,
    /// Where dead letters are kept.
    pub catalogue: Arc<dyn Catalogue>,
    /// The queues of the catalogue's store, where what is replayed waits.
    pub store: Arc<dyn Transport>,
    /// Who hears what becomes of a message that was given back.
    pub outcomes: Outcomes,
}

/// Who hears what becomes of a message that was given back to its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcomes {
    /// Whoever handles it tells the catalogue, see [`Reporting`](crate::Reporting).
    Reported,
    /// Nobody here: once the broker has it, it counts as completed.
    Unheard,
}

impl Intake {
    /// Goes on until told to stop, and then finishes what it has begun. Trouble with either side is logged and waited
    /// out.
    pub async fn run(self, shutdown: Shutdown) {
        let taking = self.steadily(&shutdown, "take dead letters in", || self.take_in(&shutdown));
        let giving =
            self.steadily(&shutdown, "give replayed messages back", || self.replay(&shutdown));
        tokio::join!(taking, giving);
    }

    /// Does `work` again and again until it ends without trouble.
    async fn steadily<F>(&self, shutdown: &Shutdown, what: &'static str, work: impl Fn() -> F)
    where
        F: Future<Output = Result<(), Trouble>>,
    {
        let mut pause = PAUSES.0;
        while !shutdown.is_draining() {
            let started = tokio::time::Instant::now();
            let Err(trouble) = work().await else { return };
            if started.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            let (error, cause) = (&trouble.0, trouble.cause());
            tracing::warn!(queue = %self.queue, %error, cause, wait_ms = pause.as_millis() as u64, "cannot {what} for now");
            tokio::select! { () = sleep(pause) => (), () = shutdown.draining() => () }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn feed(&self) -> Result<Box<dyn DeadLetterFeed>, Trouble> {
        let feed = self.broker.dead_letter_feed(&self.queue).await?;
        feed.ok_or_else(|| {
            let kind = ErrorKind::Unsupported("dead letters that are taken elsewhere");
            Trouble::from(TransportError::new(kind, "broker", "take in"))
        })
    }

    async fn take_in(&self, shutdown: &Shutdown) -> Result<(), Trouble> {
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
            feed.remove(&ids).await?;
            tracing::debug!(queue = %self.queue, new, "dead letters taken in");
        }
    }

    async fn replay(&self, shutdown: &Shutdown) -> Result<(), Trouble> {
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
    ) -> Result<(), Trouble> {
        let messages: Vec<_> = deliveries.iter().map(|delivery| sent(&delivery.message)).collect();
        let results = feed.replay(&messages).await;
        let mut trouble = None;
        let (mut settled, mut given) = (Vec::with_capacity(deliveries.len()), Vec::new());
        for (delivery, result) in deliveries.into_iter().zip(results) {
            let settlement = match result {
                Ok(()) => {
                    let replay = delivery.message.ledger.replay;
                    given.extend(replay.map(|replay| (replay, delivery.message.id.clone())));
                    Settlement::Complete
                }
                Err(error) if never_passes(&error) => {
                    let words = "it cannot be sent to its broker as it is; edit it";
                    let reason = Reason::new(Code::from_static("not-given-back"), words);
                    Settlement::DeadLetter { reason, tries: Vec::new() }
                }
                Err(error) => {
                    trouble = Some(error);
                    Settlement::Release { after: PAUSES.0 }
                }
            };
            settled.push((delivery, settlement));
        }
        // Before the settlement: after it nobody would know any more that this was not said.
        if self.outcomes == Outcomes::Unheard && !given.is_empty() {
            self.catalogue.completed(given).await?;
        }
        for result in waiting.settle(settled).await {
            result?;
        }
        trouble.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Whether the message itself is at fault. It is set aside again, so that it does not hold up the others for ever.
fn never_passes(error: &TransportError) -> bool {
    matches!(error.kind, ErrorKind::Invalid(_) | ErrorKind::TooLarge { .. })
}

/// The message as the broker gets it: that it was taken out of the store here is no delivery there, unless that
/// happened before, and then it may be there already.
fn sent(message: &Message) -> Message {
    let mut message = message.clone();
    message.ledger.acquired = message.ledger.acquired.saturating_sub(1);
    message
}

/// What went wrong on either side.
struct Trouble(CatalogueError);

impl<E: Into<CatalogueError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Trouble {
    /// What lies behind it. No text of a transport shows content.
    fn cause(&self) -> Option<String> {
        let error: &dyn std::error::Error = &self.0;
        error.source().map(ToString::to_string)
    }
}

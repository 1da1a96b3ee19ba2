//! One of the two sides, used only through the contract.

use std::{collections::HashSet, num::NonZeroU32, time::Duration};

use bezoar_core::{
    Acceptance, DeadLetterAccess, DeadLetterId, DeadLetterIds, DeadLetterPage, Delivery, Depth,
    ErrorKind, Message, QueueAdmin, QueueName, Reason, Receipt, Settlement, SubscribeOptions,
    Subscription, Transport, TransportError,
};
use jiff::Timestamp;

use super::{
    flaw::{Flaw, Flawed},
    step::{Afterwards, Chosen, LEASE, Pick, QUEUES, Step, name},
};

pub(crate) trait Store: Transport + QueueAdmin + DeadLetterAccess {}
impl<T: Transport + QueueAdmin + DeadLetterAccess> Store for T {}

/// One of the two sides, and what its workers and operators know.
pub(crate) struct Side {
    pub(crate) store: Box<dyn Store>,
    pub(crate) subscriptions: Vec<Box<dyn Subscription>>,
    /// Deliveries with their queues; some are settled or have expired.
    held: Vec<(usize, Delivery)>,
    /// Every dead letter that was ever seen.
    dead: Vec<DeadLetterId>,
}

/// The result of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Nothing,
    Each(Vec<Result<(), ErrorKind>>),
    Sent(Vec<Result<Acceptance, ErrorKind>>),
    Received(Result<Vec<Received>, ErrorKind>),
    Extended(Result<Option<Timestamp>, ErrorKind>),
    Count(Result<u64, ErrorKind>),
}

/// A delivery without its receipt.
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    message: Message,
    lease_until: Option<Timestamp>,
    redelivered: bool,
}

/// What an operator sees of a queue.
#[derive(Debug, PartialEq)]
pub(crate) struct View {
    depth: Depth,
    dead: Vec<(QueueName, Message, Reason, Timestamp)>,
}

impl Side {
    pub(crate) async fn open(store: Box<dyn Store>, flaw: Flaw) -> Self {
        let mut subscriptions: Vec<Box<dyn Subscription>> = Vec::new();
        for queue in QUEUES.map(name) {
            store.provision(&queue).await.unwrap();
            let options = SubscribeOptions::default().with_lease(LEASE);
            let inner = store.subscribe(&queue, options).await.unwrap();
            subscriptions.push(Box::new(Flawed { inner, flaw }));
        }
        Self { store, subscriptions, held: Vec::new(), dead: Vec::new() }
    }

    pub(crate) async fn act(&mut self, step: &Step) -> Answer {
        match step {
            Step::Send { to, batch } => Answer::Sent(kinds(self.store.send(to, batch).await)),
            Step::Receive { queue, max } => self.receive(*queue, *max).await,
            Step::Settle(batch) => self.settle(batch).await,
            Step::Extend { which, lease, after } => self.extend(*which, *lease, *after).await,
            Step::Replay { queue, chosen } => {
                let selection = self.selection(chosen);
                Answer::Count(kind(self.store.replay(queue, &selection).await))
            }
            Step::Discard { queue, chosen } => {
                let selection = self.selection(chosen);
                Answer::Count(kind(self.store.discard(queue, &selection).await))
            }
            Step::Elapse(_) | Step::Reopen | Step::ReceiveAndDrop { .. } => Answer::Nothing,
        }
    }

    pub(crate) async fn receive(&mut self, queue: usize, max: NonZeroU32) -> Answer {
        let received = self.subscriptions[queue].receive(max, Duration::ZERO).await;
        self.keep(queue, received)
    }

    pub(crate) fn keep(
        &mut self,
        queue: usize,
        received: Result<Vec<Delivery>, TransportError>,
    ) -> Answer {
        let shown = |delivery: &Delivery| Received {
            message: (*delivery.message).clone(),
            lease_until: delivery.lease_until,
            redelivered: delivery.redelivered,
        };
        Answer::Received(kind(received).map(|deliveries| {
            let all = deliveries.iter().map(shown).collect();
            self.held.extend(deliveries.into_iter().map(|delivery| (queue, delivery)));
            all
        }))
    }

    /// Settles at the queue of the first delivery. Deliveries of other queues in the batch must be
    /// refused.
    async fn settle(&mut self, batch: &[(Pick, Settlement, Afterwards)]) -> Answer {
        let mut chosen = Vec::new();
        for (which, settlement, after) in batch {
            if !self.held.is_empty() {
                let (queue, delivery) = self.take(*which, *after);
                chosen.push((queue, (delivery, settlement.clone())));
            }
        }
        let Some(&(queue, _)) = chosen.first() else { return Answer::Nothing };
        let chosen = chosen.into_iter().map(|(_, settled)| settled).collect();
        Answer::Each(kinds(self.subscriptions[queue].settle(chosen).await))
    }

    async fn extend(&mut self, which: Pick, lease: Duration, after: Afterwards) -> Answer {
        if self.held.is_empty() {
            return Answer::Nothing;
        }
        let (queue, mut delivery) = self.take(which, after);
        let extended = self.subscriptions[queue]
            .extend(std::slice::from_mut(&mut delivery), lease)
            .await
            .remove(0);
        let answer = Answer::Extended(kind(extended).map(|()| delivery.lease_until));
        self.held.push((queue, delivery));
        answer
    }

    /// Keeps only the most recent copy of each lease. Only the process that moved a lease without notifying its
    /// holder knows the new place; after a process ends, it has no holders left.
    pub(crate) fn keep_latest_copies(&mut self) {
        let mut seen = HashSet::new();
        self.held.reverse();
        // A renewal changes the place in a receipt, but neither the message nor the lease.
        let lease = |delivery: &Delivery| {
            delivery.receipt.numbers().map(|[message, token, _]| (message, token))
        };
        self.held.retain(|(queue, delivery)| seen.insert((*queue, lease(delivery))));
        self.held.reverse();
    }

    /// A leased delivery, of which a copy may be kept to be used again.
    fn take(&mut self, which: Pick, after: Afterwards) -> (usize, Delivery) {
        let at = which.of(&self.held);
        match after {
            Afterwards::Forgotten => self.held.remove(at),
            Afterwards::Kept => {
                let (queue, delivery) = &self.held[at];
                (*queue, delivery.copy())
            }
            Afterwards::Forged => {
                let (queue, mut delivery) = self.take(which, Afterwards::Kept);
                delivery.receipt = Receipt::from_text("1");
                (queue, delivery)
            }
        }
    }

    fn selection(&self, chosen: &Chosen) -> DeadLetterIds {
        let id = |which: &Pick| match self.dead.is_empty() {
            true => DeadLetterId::from_number(i64::MAX),
            false => self.dead[which.of(&self.dead)],
        };
        match chosen {
            Chosen::All => DeadLetterIds::All,
            Chosen::Known(ids) => DeadLetterIds::Ids(ids.iter().map(id).collect()),
            Chosen::Unknown(id) => DeadLetterIds::Ids(vec![DeadLetterId::from_number(*id)]),
        }
    }

    pub(crate) async fn look(&mut self) -> Vec<View> {
        let mut views = Vec::new();
        for queue in QUEUES.map(name) {
            let depth = self.store.depth(&queue).await.unwrap();
            let page = DeadLetterPage { limit: NonZeroU32::MAX, ..DeadLetterPage::default() };
            let dead = self.store.dead_letters(&queue, page).await.unwrap();
            let new = dead.iter().map(|dead| dead.id).filter(|id| !self.dead.contains(id));
            self.dead.extend(new.collect::<Vec<_>>());
            let shown =
                dead.into_iter().map(|dead| (dead.queue, dead.message, dead.reason, dead.at));
            views.push(View { depth, dead: shown.collect() });
        }
        views
    }

    /// Waits until a dropped receive is undone: its response comes before that of the first
    /// request, so its undo is queued before the second.
    pub(crate) async fn catch_up(&self) {
        for _ in 0..2 {
            self.store.provision(&name(QUEUES[0])).await.unwrap();
        }
    }
}

fn kind<T>(result: Result<T, TransportError>) -> Result<T, ErrorKind> {
    result.map_err(|error| error.kind)
}

fn kinds<T>(results: Vec<Result<T, TransportError>>) -> Vec<Result<T, ErrorKind>> {
    results.into_iter().map(kind).collect()
}

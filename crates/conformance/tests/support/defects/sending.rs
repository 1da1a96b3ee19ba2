//! Batches, queues and orders that are not kept.

use std::{
    collections::BTreeSet,
    num::NonZeroU32,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bezoar_core::{
    Acceptance, Delivery, Destination, ErrorKind, MAX_DELAY, MessageId, Outgoing, QueueAdmin,
    Transport, TransportError,
};

use super::{Acceptances, Control, Defect, Opened, Store, Twist, error};

pub(crate) fn controls() -> Vec<Control> {
    vec![
        Control::new(
            "treats a different message with a known id as a duplicate",
            || Twist {
                sent_results: Box::new(|results| {
                    for result in results {
                        if matches!(result, Err(error) if matches!(error.kind, ErrorKind::Conflict(_)))
                        {
                            *result = Ok(Acceptance::New);
                        }
                    }
                }),
                ..Twist::default()
            },
            &["once::the_same_id_with_another_body_is_a_conflict"],
        ),
        Control::new(
            "returns results in the wrong order",
            || Twist { sent_results: Box::new(|results| results.reverse()), ..Twist::default() },
            &["sending::a_batch_has_one_result_for_each_message"],
        ),
        Control::new(
            "has a result for an empty batch",
            || Twist { sent_results: Box::new(one_at_least), ..Twist::default() },
            &["sending::an_empty_batch_has_no_results"],
        ),
        Control::new(
            "receives any number of bytes",
            || Twist {
                options: Box::new(|asked| asked.max_bytes = usize::MAX),
                ..Twist::default()
            },
            &["sending::a_receive_ends_with_its_bytes"],
        ),
        Control::new(
            "stops a batch at the first error",
            || StopsAtTheFirstError,
            &[
                "sending::a_batch_has_one_result_for_each_message",
                "bodies::a_refused_message_does_not_hinder_its_batch",
            ],
        ),
        Control::new(
            "loses every hundredth message",
            LosesTheHundredth::default,
            &[
                "sending::a_large_batch_arrives_whole",
                "concurrency::many_senders_lose_nothing",
                "concurrency::senders_and_receivers_get_along",
            ],
        ),
        Control::new(
            "sends a batch backwards",
            || Backwards,
            &["sending::messages_arrive_in_the_order_of_sending"],
        ),
        Control::new(
            "accepts a message id once",
            AcceptsAnIdOnce::default,
            &[
                "sending::a_message_id_may_repeat",
                "dead_letters::the_same_message_id_is_kept_twice",
            ],
        ),
        Control::new(
            "recognizes no duplicate",
            || Twist { sent: Box::new(|outgoing| outgoing.once = None), ..Twist::default() },
            &[
                "once::the_same_id_is_accepted_once",
                "once::a_repetition_is_reported_as_one",
                "once::a_repetition_after_the_message_is_done_is_still_one",
                "once::the_same_id_is_accepted_again_after_its_time",
            ],
        ),
        Control::new(
            "reports a repetition as new",
            || Twist {
                sent_results: Box::new(|results| {
                    results.iter_mut().flatten().for_each(|it| *it = Acceptance::New);
                }),
                ..Twist::default()
            },
            &["once::a_repetition_is_reported_as_one"],
        ),
        Control::new(
            "remembers an id forever",
            || Twist { sent: Box::new(remember_for_ever), ..Twist::default() },
            &["once::the_same_id_is_accepted_again_after_its_time"],
        ),
        Control::new(
            "remembers ids of all queues together",
            AcceptsAnIdOnce::default,
            &["once::another_queue_may_have_the_same_id"],
        ),
        Control::new(
            "sends to every queue",
            || SendsToEveryQueue,
            &["sending::queues_are_separate"],
        ),
        Control::new(
            "treats a topic as a queue",
            || TakesATopicForAQueue,
            &["sending::a_topic_is_refused_where_there_are_none"],
        ),
        Control::new(
            "creates the queue that it sends to",
            || MakesQueues,
            &["admin::sending_to_an_unknown_queue_is_refused"],
        ),
        Control::new(
            "returns more than requested",
            || AsksFor(|_| 10),
            &["sending::receive_gives_no_more_than_asked_for"],
        ),
        Control::new(
            "refuses a receive of many messages",
            || AsksFor(|max| if max > 1_000 { 0 } else { max }),
            &["sending::receive_gives_what_is_there_when_asked_for_more"],
        ),
    ]
}

fn remember_for_ever(outgoing: &mut Outgoing) {
    outgoing.once = outgoing.once.map(|_| MAX_DELAY);
}

fn one_at_least(results: &mut Acceptances) {
    if results.is_empty() {
        results.push(Ok(Acceptance::New));
    }
}

#[derive(Debug)]
struct StopsAtTheFirstError;

#[async_trait]
impl Defect for StopsAtTheFirstError {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let mut results = Vec::new();
        for outgoing in batch {
            results.extend(store.memory.send(to, std::slice::from_ref(outgoing)).await);
            if results.last().is_some_and(Result::is_err) {
                break;
            }
        }
        results.resize_with(batch.len(), || Err(error(ErrorKind::Other)));
        results
    }
}

#[derive(Debug, Default)]
struct LosesTheHundredth(AtomicUsize);

#[async_trait]
impl Defect for LosesTheHundredth {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let lost = |_: &&Outgoing| self.0.fetch_add(1, Ordering::SeqCst) % 100 != 99;
        let kept: Vec<_> = batch.iter().filter(lost).cloned().collect();
        let mut results = store.memory.send(to, &kept).await;
        results.resize_with(batch.len(), || Ok(Acceptance::New));
        results
    }
}

#[derive(Debug)]
struct Backwards;

#[async_trait]
impl Defect for Backwards {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let backwards: Vec<_> = batch.iter().rev().cloned().collect();
        store.memory.send(to, &backwards).await.into_iter().rev().collect()
    }
}

#[derive(Debug, Default)]
struct AcceptsAnIdOnce(Mutex<BTreeSet<MessageId>>);

#[async_trait]
impl Defect for AcceptsAnIdOnce {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        let mut results = Vec::new();
        for outgoing in batch {
            let new = self.0.lock().unwrap().insert(outgoing.message.id.clone());
            if new {
                results.extend(store.memory.send(to, std::slice::from_ref(outgoing)).await);
            } else {
                results.push(Ok(Acceptance::New));
            }
        }
        results
    }
}

#[derive(Debug)]
struct SendsToEveryQueue;

#[async_trait]
impl Defect for SendsToEveryQueue {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        for queue in store.memory.queues().await.unwrap() {
            if Destination::from(&queue) != *to {
                store.memory.send(&queue.into(), batch).await;
            }
        }
        store.memory.send(to, batch).await
    }
}

#[derive(Debug)]
struct TakesATopicForAQueue;

#[async_trait]
impl Defect for TakesATopicForAQueue {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        match to {
            Destination::Topic { name, .. } => store.memory.send(&name.into(), batch).await,
            _ => store.memory.send(to, batch).await,
        }
    }
}

#[derive(Debug)]
struct MakesQueues;

#[async_trait]
impl Defect for MakesQueues {
    async fn send(&self, store: &Store, to: &Destination, batch: &[Outgoing]) -> Acceptances {
        if let Destination::Queue(queue) = to {
            store.memory.provision(queue).await.unwrap();
        }
        store.memory.send(to, batch).await
    }
}

/// Receives another number of messages; 0 is refused.
#[derive(Debug)]
struct AsksFor(fn(u32) -> u32);

#[async_trait]
impl Defect for AsksFor {
    async fn receive(
        &self,
        open: &Opened,
        max: NonZeroU32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, TransportError> {
        let max = NonZeroU32::new((self.0)(max.get())).ok_or_else(|| error(ErrorKind::Other))?;
        open.inner.receive(max, wait).await
    }
}

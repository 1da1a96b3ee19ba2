//! Replay: sends dead letters back to where they came from.
//!
//! A message goes to the exchange and routing key that it was published with, so that other queues bound there get it
//! as they did before. If that exchange no longer exists or routes it to no queue, it goes to its queue directly.

use std::collections::{BTreeMap, BTreeSet};

use bezoar_core::{ErrorKind, Message, QueueName, TransportError};
use bytes::Bytes;
use lapin::types::ShortString;

use crate::{
    RabbitTransport,
    error::{error, queue_not_found},
    publishing::publisher::{Outcome, Patience, Publication, Published},
    transport::TransportState,
    wire::origin::{self, ReplayTarget},
};

/// Where a replayed message goes and with which properties, and its body.
pub(crate) type ReplayPublication = (ReplayTarget, Bytes);

impl RabbitTransport {
    /// Sends dead letters that a catalogue has stored back to where they came from, with their original properties and
    /// header types: to the exchange and routing key they were published with, if these are known, otherwise to the
    /// queue directly. A message that its exchange routes to no queue any more goes to the queue directly.
    ///
    /// One result per message, in order. `Ok` means stored by the broker, in a queue. If the future is dropped, each
    /// message has been sent completely or not at all.
    pub async fn replay_messages(
        &self,
        queue: &QueueName,
        batch: &[Message],
    ) -> Vec<Result<(), TransportError>> {
        self.inner.replay_messages(queue, batch).await
    }
}

impl TransportState {
    pub(crate) async fn replay_messages(
        &self,
        queue: &QueueName,
        batch: &[Message],
    ) -> Vec<Result<(), TransportError>> {
        let (mut results, mut ready, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (place, message) in batch.iter().enumerate() {
            results.push(origin::unpack(queue, message).map_or_else(
                |invalid| Err(error(ErrorKind::Invalid(invalid), "replay")),
                |(raw, message)| {
                    let replay_target = origin::replay_target(&raw, &message, &self.user);
                    ready.push((replay_target, raw.body));
                    places.push(place);
                    Ok(())
                },
            ));
        }
        let sent = self.publish_replays(queue, &ready, "replay").await;
        for (place, sent) in places.into_iter().zip(sent) {
            results[place] = sent;
        }
        results
    }

    /// One result per message, in order.
    pub(crate) async fn publish_replays(
        &self,
        queue: &QueueName,
        batch: &[ReplayPublication],
        operation: &'static str,
    ) -> Vec<Result<(), TransportError>> {
        let missing = match self.missing_exchanges(batch, operation).await {
            Ok(missing) => missing,
            Err(failed) => return batch.iter().map(|_| Err(failed.again())).collect(),
        };
        let first = batch.iter().map(|back| match &back.0.came_by {
            Some((exchange, _)) if missing.contains(exchange) => direct_to_queue(queue, back),
            _ => to_original_exchange(queue, back),
        });
        let first: Vec<_> = first.collect();
        let mut outcomes = self.publish_by_exchange(&first, operation).await;
        let stray = |at: &usize| {
            let by_exchange = !first[*at].exchange.as_str().is_empty();
            by_exchange && matches!(outcomes[*at], Ok(Published::NotRouted))
        };
        let strays: Vec<usize> = (0..batch.len()).filter(stray).collect();
        let second: Vec<_> = strays.iter().map(|at| direct_to_queue(queue, &batch[*at])).collect();
        for (at, outcome) in
            strays.iter().zip(self.publisher.publish(second, Patience::Limited, operation).await)
        {
            outcomes[*at] = outcome;
        }
        let redirected = strays.len() + count_missing(batch, &missing);
        if redirected > 0 {
            tracing::warn!(
                %queue, messages = redirected,
                "their exchange routes them to no queue any more: sent to the queue directly"
            );
        }
        let results = outcomes.into_iter().zip(batch);
        results.map(|(outcome, back)| stored(outcome, queue, back, operation)).collect()
    }

    /// Publishes by exchange: a missing exchange closes the channel, and would take other publications down with it.
    async fn publish_by_exchange(
        &self,
        batch: &[Publication],
        operation: &'static str,
    ) -> Vec<Outcome> {
        let mut groups = BTreeMap::<&str, Vec<usize>>::new();
        for (at, publication) in batch.iter().enumerate() {
            groups.entry(publication.exchange.as_str()).or_default().push(at);
        }
        let mut outcomes: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        for group in groups.values() {
            let part: Vec<_> = group.iter().map(|at| batch[*at].clone()).collect();
            for (at, outcome) in
                group.iter().zip(self.publisher.publish(part, Patience::Limited, operation).await)
            {
                outcomes[*at] = Some(outcome);
            }
        }
        outcomes.into_iter().map(|it| it.expect("each is in exactly one group")).collect()
    }

    async fn missing_exchanges(
        &self,
        batch: &[ReplayPublication],
        operation: &'static str,
    ) -> Result<BTreeSet<ShortString>, TransportError> {
        let exchanges = batch.iter().filter_map(|(it, _)| it.came_by.as_ref().map(|(it, _)| it));
        let exchanges = exchanges.filter(|exchange| !exchange.as_str().is_empty());
        let mut missing = BTreeSet::new();
        for exchange in exchanges.collect::<BTreeSet<_>>() {
            if !self.has_exchange(exchange.as_str(), operation).await? {
                missing.insert(exchange.clone());
            }
        }
        Ok(missing)
    }
}

fn to_original_exchange(queue: &QueueName, back: &ReplayPublication) -> Publication {
    let Some((exchange, key)) = back.0.came_by.clone() else { return direct_to_queue(queue, back) };
    Publication { exchange, key, properties: back.0.properties.clone(), body: back.1.clone() }
}

fn direct_to_queue(queue: &QueueName, (replay_target, body): &ReplayPublication) -> Publication {
    Publication {
        exchange: "".into(),
        key: queue.as_str().into(),
        properties: replay_target.to_queue(),
        body: body.clone(),
    }
}

fn count_missing(batch: &[ReplayPublication], missing: &BTreeSet<ShortString>) -> usize {
    let is_missing = |(it, _): &&ReplayPublication| {
        it.came_by.as_ref().is_some_and(|(exchange, _)| missing.contains(exchange))
    };
    batch.iter().filter(is_missing).count()
}

fn stored(
    outcome: Outcome,
    queue: &QueueName,
    (replay_target, _): &ReplayPublication,
    operation: &'static str,
) -> Result<(), TransportError> {
    match outcome? {
        Published::Stored => Ok(()),
        Published::NotRouted => {
            let origin =
                replay_target.came_by.as_ref().filter(|(exchange, _)| exchange.as_str().is_empty());
            let origin = origin.and_then(|(_, key)| QueueName::new(key.as_str()).ok());
            Err(queue_not_found(origin.as_ref().unwrap_or(queue), operation))
        }
    }
}

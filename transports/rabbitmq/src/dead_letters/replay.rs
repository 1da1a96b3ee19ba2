//! Sending what was set aside back to where it came from.

use std::collections::{BTreeMap, BTreeSet};

use bezoar_core::{ErrorKind, Message, QueueName, TransportError};
use bytes::Bytes;
use lapin::{
    ExchangeKind,
    options::ExchangeDeclareOptions,
    types::{FieldTable, ShortString},
};

use crate::{
    RabbitTransport,
    error::{error, from_lapin, is_not_found, queue_not_found},
    publishing::publisher::{Outcome, Publication, Published},
    transport::TransportState,
    wire::origin::{self, ReplayTarget},
};

/// A message on its way back, and its body.
pub(crate) type ReplayPublication = (ReplayTarget, Bytes);

impl RabbitTransport {
    /// Sends messages that were set aside and kept elsewhere back to where they came from, with the
    /// properties and header types that they had: to their original exchange and routing key where these are
    /// known, otherwise to the queue itself. One that its exchange no longer takes to any queue goes to the
    /// queue itself.
    ///
    /// One result per message, in order. `Ok` means stored by the broker, in a queue. Dropping the future
    /// leaves each message sent as a whole or not at all.
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
            results.push(origin::unpack(message).map_or_else(
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
        for (at, outcome) in strays.iter().zip(self.publisher.publish(second, operation).await) {
            outcomes[*at] = outcome;
        }
        let redirected = strays.len() + count_missing(batch, &missing);
        if redirected > 0 {
            tracing::warn!(
                %queue, messages = redirected,
                "their exchange no longer takes them anywhere: sent to the queue itself"
            );
        }
        outcomes.into_iter().map(|outcome| stored(outcome, queue, operation)).collect()
    }

    /// A channel ends with the first publication that its exchange refuses, so each exchange has its own.
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
            for (at, outcome) in group.iter().zip(self.publisher.publish(part, operation).await) {
                outcomes[*at] = Some(outcome);
            }
        }
        outcomes.into_iter().map(|it| it.expect("each is in one group")).collect()
    }

    async fn missing_exchanges(
        &self,
        batch: &[ReplayPublication],
        operation: &'static str,
    ) -> Result<BTreeSet<ShortString>, TransportError> {
        let exchanges = batch.iter().filter_map(|(it, _)| it.came_by.as_ref().map(|(it, _)| it));
        let mut missing = BTreeSet::new();
        for exchange in exchanges.collect::<BTreeSet<_>>() {
            if !self.has_exchange(exchange.as_str(), operation).await? {
                missing.insert(exchange.clone());
            }
        }
        Ok(missing)
    }

    pub(crate) async fn has_exchange(
        &self,
        exchange: &str,
        operation: &'static str,
    ) -> Result<bool, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
        // A passive look takes no notice of the kind.
        let kind = ExchangeKind::Direct;
        let declare =
            channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default());
        let answer = self.requests.with_timeout(declare, operation).await?;
        self.requests.reuse(channel);
        match answer {
            Ok(()) => Ok(true),
            Err(source) if is_not_found(&source) => Ok(false),
            Err(source) => Err(from_lapin(&source, operation)),
        }
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
    operation: &'static str,
) -> Result<(), TransportError> {
    match outcome? {
        Published::Stored => Ok(()),
        Published::NotRouted => Err(queue_not_found(queue, operation)),
    }
}

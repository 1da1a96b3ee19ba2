//! Requests that show whether our user has a permission; see `permissions.rs`.
//!
//! A refusal closes its channel, which costs the broker a few milliseconds. So of many names a sample is asked for, and
//! the others only if one of the sample is lacking. Requests that are usually not refused follow each other on one channel
//! without waiting for the replies.

use std::{collections::BTreeSet, time::Duration};

use bezoar_core::TransportError;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    future::{join_all, ready},
    stream,
};
use lapin::{
    BasicProperties, Channel,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::FieldTable,
};
use tokio::time::timeout;

use crate::{
    RabbitTransport,
    check::VALIDATE,
    connection::broker_connection::BrokerConnection,
    error::is_access_refused,
    topology::{Topology, UNROUTABLE},
};

/// How many channels are about to be closed by a refusal at once.
const REFUSALS: usize = 32;
/// How many names are asked for if there are more, unless one of them is lacking.
const SAMPLE: usize = 100;
/// Prime numbers, so that a number of names can be a multiple of only one: so many names on is the next one of the sample.
/// Queues that belong together follow each other.
const STRIDES: [usize; 2] = [7_919, 7_907];
/// How many requests follow each other on a channel.
const PIPELINED: usize = 64;
/// No number: a message with this expiration is refused.
const INVALID_EXPIRATION: &str = "never";
/// A routing key without a binding.
const NO_BINDING: &str = "bezoar.delay.nowhere";
/// After this long without an answer, an alarm is assumed to block publishers; it is a finding of its own.
const ALARM_AFTER: Duration = Duration::from_secs(2);

/// What came of asking to remove a binding that does not exist. It needs the same permissions as binding: first to write
/// the queue, then to read the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unbound {
    Allowed,
    QueueRefused,
    ExchangeRefused,
    /// The queue or the exchange does not exist, which is a finding of its own.
    Unknown,
}

impl From<lapin::Result<()>> for Unbound {
    fn from(answer: lapin::Result<()>) -> Self {
        match answer {
            Ok(()) => Self::Allowed,
            Err(source) if !is_access_refused(&source) => Self::Unknown,
            Err(source) if source.to_string().contains("exchange '") => Self::ExchangeRefused,
            Err(_) => Self::QueueRefused,
        }
    }
}

impl RabbitTransport {
    /// The queues that our user may not read.
    pub(super) async fn unreadable_queues(
        &self,
        queues: BTreeSet<String>,
    ) -> Result<Asked, TransportError> {
        let ask = |queue: String| async move {
            let refused = self.inner.refused_consumer(&queue, VALIDATE).await?;
            Ok(refused.is_some_and(|source| is_access_refused(&source)).then_some(queue))
        };
        Asked::for_all(queues, ask).await
    }

    /// The queues that our user may not write, and the first delay exchange that it may not read.
    pub(super) async fn unbindable(
        &self,
        queues: &[String],
    ) -> Result<(BTreeSet<String>, Option<String>), TransportError> {
        let exchanges = Topology::of_delays(&self.inner.options).exchanges.into_iter();
        let mut exchanges = exchanges.map(|it| it.name).filter(|name| name != UNROUTABLE);
        let Some(first) = exchanges.next() else { return Ok(Default::default()) };
        let to_first: Vec<_> = queues.iter().map(|queue| (queue.as_str(), &*first)).collect();
        let asked = to_first.chunks(PIPELINED).map(|some| self.unbind_each(some));
        let asked = stream::iter(asked.collect::<Vec<_>>()).buffered(REFUSALS / 4);
        let answers: Vec<Unbound> = asked.try_collect::<Vec<_>>().await?.concat();
        let of = |wanted: Unbound| {
            let found = queues.iter().zip(&answers).filter(move |(_, answer)| **answer == wanted);
            found.map(|(queue, _)| queue.clone())
        };
        let unwritable = of(Unbound::QueueRefused).collect();
        if of(Unbound::ExchangeRefused).next().is_some() {
            return Ok((unwritable, Some(first)));
        }
        // The permission to read an exchange is the same for all queues, so one that may be written is enough.
        let Some(queue) = of(Unbound::Allowed).next() else { return Ok((unwritable, None)) };
        let others: Vec<_> = exchanges.collect();
        let to_others: Vec<_> = others.iter().map(|it| (queue.as_str(), it.as_str())).collect();
        let answers = self.unbind_each(&to_others).await?;
        let refused = answers.iter().position(|answer| *answer == Unbound::ExchangeRefused);
        Ok((unwritable, refused.map(|at| others[at].clone())))
    }

    /// Asks to remove bindings of queues to exchanges that do not exist.
    async fn unbind_each(&self, pairs: &[(&str, &str)]) -> Result<Vec<Unbound>, TransportError> {
        let (requests, mut outcomes) = (&self.inner.requests, Vec::with_capacity(pairs.len()));
        while outcomes.len() < pairs.len() {
            let channel = requests.request_channel(VALIDATE).await?;
            let unbind = |(queue, exchange): &(&str, &str)| {
                let (queue, exchange) = ((*queue).into(), (*exchange).into());
                channel.queue_unbind(queue, exchange, NO_BINDING.into(), FieldTable::default())
            };
            let unbinding = join_all(pairs[outcomes.len()..].iter().map(unbind));
            let answers = requests.with_timeout(unbinding, VALIDATE).await?;
            requests.reuse(channel);
            for answer in answers.into_iter().map(Unbound::from) {
                outcomes.push(answer);
                if answer != Unbound::Allowed {
                    break; // it has closed the channel, and all later requests fail with the same error
                }
            }
        }
        Ok(outcomes)
    }

    /// The exchanges that our user may not publish to. On a connection of its own: during an alarm the broker answers
    /// nothing on it, and the permission stays unknown.
    pub(super) async fn unwritable_exchanges(
        &self,
        exchanges: BTreeSet<String>,
    ) -> Result<Asked, TransportError> {
        let link = &BrokerConnection::new(self.inner.options.clone(), "checking permissions");
        let ask = |exchange: String| async move {
            Ok(lacks_write(link, &exchange).await?.then_some(exchange))
        };
        let asked = Asked::for_all(exchanges, ask).await;
        link.close().await;
        asked
    }
}

/// What came of asking for permissions.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The names of what our user lacks the permission for.
    pub(super) lacking: BTreeSet<String>,
    /// How many names were not asked for.
    pub(super) skipped: usize,
}

impl Asked {
    async fn for_all<F>(
        names: BTreeSet<String>,
        ask: impl Fn(String) -> F,
    ) -> Result<Self, TransportError>
    where
        F: Future<Output = Result<Option<String>, TransportError>>,
    {
        let (sample, others) = sample(names);
        let mut lacking = at_once(sample, &ask).await?;
        if lacking.is_empty() {
            return Ok(Self { lacking, skipped: others.len() });
        }
        lacking.extend(at_once(others, &ask).await?);
        Ok(Self { lacking, skipped: 0 })
    }
}

/// Some of many names, from everywhere, and the others.
fn sample(names: BTreeSet<String>) -> (BTreeSet<String>, BTreeSet<String>) {
    let count = names.len();
    let stride = STRIDES[usize::from(count.is_multiple_of(STRIDES[0]))];
    let chosen: BTreeSet<_> = match count <= SAMPLE {
        true => (0..count).collect(),
        false => (0..SAMPLE).map(|at| at * stride % count).collect(),
    };
    let (sample, others): (Vec<_>, Vec<_>) =
        names.into_iter().enumerate().partition(|(at, _)| chosen.contains(at));
    let names = |some: Vec<(usize, String)>| some.into_iter().map(|(_, name)| name).collect();
    (names(sample), names(others))
}

/// Asks for several at the same time.
async fn at_once<F>(
    names: BTreeSet<String>,
    ask: impl Fn(String) -> F,
) -> Result<BTreeSet<String>, TransportError>
where
    F: Future<Output = Result<Option<String>, TransportError>>,
{
    let asked = stream::iter(names).map(ask).buffer_unordered(REFUSALS);
    asked.try_filter_map(|name| ready(Ok(name))).try_collect().await
}

async fn lacks_write(link: &BrokerConnection, exchange: &str) -> Result<bool, TransportError> {
    if link.connection(VALIDATE).await?.status().blocked() {
        return Ok(false);
    }
    let channel = link.request_channel(VALIDATE).await?;
    let refused = timeout(ALARM_AFTER, try_to_write(&channel, exchange)).await;
    Ok(refused.is_ok_and(|refused| refused.is_err_and(|source| is_access_refused(&source))))
}

/// The confirm reports why the broker closes the channel, however early it does.
async fn try_to_write(channel: &Channel, exchange: &str) -> lapin::Result<()> {
    let properties = BasicProperties::default().with_expiration(INVALID_EXPIRATION.into());
    let options = BasicPublishOptions::default();
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    channel.basic_publish(exchange.into(), "".into(), options, &[], properties).await?.await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_many_names_has_some_of_each_kind() {
        let ends = ["", ".dead", ".quarantine"];
        let names = |count: usize| -> BTreeSet<_> {
            (0..count).flat_map(|it| ends.map(|end| format!("q-{it}{end}"))).collect()
        };
        let (few, none) = sample(names(20));
        assert_eq!((few.len(), none.len()), (60, 0));
        for count in [50, 1_000, 7_919] {
            let (some, others) = sample(names(count));
            assert!(some.is_disjoint(&others) && some.len() + others.len() == 3 * count);
            let dead = some.iter().filter(|name| name.ends_with(".dead")).count();
            assert!(some.len() == SAMPLE && (20..50).contains(&dead), "{dead} of {}", some.len());
        }
    }
}

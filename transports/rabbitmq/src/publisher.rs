//! Publishing with pipelined confirms.
//!
//! A batch has a channel for itself until all its confirms are in. lapin hands a returned message to
//! whichever confirm comes next, so returns are only matched within a batch, by what was returned.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, TransportError};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection,
    message::BasicReturnMessage,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::ShortString,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    Options,
    error::{error, from_lapin, is_not_found},
    link::Link,
};

/// How many batches are published at once.
const CHANNELS: usize = 8;
/// How many confirms are waited for together.
const WINDOW: usize = 1_000;
/// How often to look whether an alarm has ended.
const BLOCKED_PAUSE: Duration = Duration::from_millis(50);

/// A message on its way to an exchange.
#[derive(Clone)]
pub(crate) struct Publication {
    pub(crate) exchange: ShortString,
    pub(crate) key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

/// What the broker did with a publication that it has confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// It is in a queue, stored.
    Stored,
    /// No queue was there to take it.
    NotRouted,
}

pub(crate) type Outcome = Result<Published, TransportError>;

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) link: Link,
    options: Arc<Options>,
    turns: Semaphore,
    free: Mutex<Vec<Line>>,
}

/// A channel in confirm mode, and its connection.
#[derive(Debug)]
struct Line {
    connection: Arc<Connection>,
    channel: Channel,
}

impl Publisher {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            link: Link::new(options.clone(), "publishing"),
            options,
            turns: Semaphore::new(CHANNELS),
            free: Mutex::default(),
        }
    }

    /// Publishes, and waits until the broker has stored each. One result per publication, in order.
    ///
    /// Dropping the future leaves each publication sent as a whole or not at all.
    pub(crate) async fn publish(
        &self,
        batch: &[Publication],
        operation: &'static str,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for window in batch.chunks(WINDOW) {
            match self.publish_window(window, operation).await {
                Ok(done) => outcomes.extend(done),
                Err(failed) => outcomes.extend(window.iter().map(|_| Err(failed.again()))),
            }
        }
        outcomes
    }

    async fn publish_window(
        &self,
        window: &[Publication],
        operation: &'static str,
    ) -> Result<Vec<Outcome>, TransportError> {
        let deadline = Instant::now() + self.options.confirm_timeout;
        let Ok(turn) = timeout_at(deadline, self.turns.acquire()).await else {
            return Err(error(ErrorKind::Throttled { retry_after: None }, operation)
                .with_source("too much waits to be published"));
        };
        let _turn = turn.expect("the semaphore is never closed");
        let line = self.line(deadline, operation).await?;
        unblocked(&line.connection, deadline, operation).await?;
        let confirmed = line.store(window, deadline, operation).await;
        if !confirmed.iter().any(|it| matches!(&it.result, Err(failed) if breaks(failed))) {
            self.lock_free().push(line);
        }
        Ok(with_returns(window, confirmed))
    }

    async fn line(
        &self,
        deadline: Instant,
        operation: &'static str,
    ) -> Result<Line, TransportError> {
        while let Some(line) = self.lock_free().pop() {
            if line.channel.status().connected() {
                return Ok(line);
            }
        }
        let connection = self.link.connection(operation).await?;
        // A blocked connection does not answer, not even when asked for a channel.
        unblocked(&connection, deadline, operation).await?;
        let channel = self.link.channel(operation).await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        let selected = self.link.answered(select, operation).await?;
        selected.map_err(|source| from_lapin(&source, operation))?;
        Ok(Line { connection, channel })
    }

    fn lock_free(&self) -> std::sync::MutexGuard<'_, Vec<Line>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn close(&self) {
        self.lock_free().clear();
        self.link.close().await;
    }
}

impl Line {
    /// Writes all, in order, and waits for their confirms as they come. What has none at the deadline is unknown.
    async fn store(
        &self,
        window: &[Publication],
        deadline: Instant,
        operation: &'static str,
    ) -> Vec<Confirmed> {
        let store = |(at, it)| async move { (at, self.store_one(it, operation).await) };
        let mut storing: FuturesUnordered<_> = window.iter().enumerate().map(store).collect();
        let mut confirmed: Vec<Option<Confirmed>> = window.iter().map(|_| None).collect();
        // One timer for all, not one for each.
        let waiting = async {
            while let Some((at, outcome)) = storing.next().await {
                confirmed[at] = Some(outcome);
            }
        };
        if timeout_at(deadline, waiting).await.is_err() {
            // A confirm that has come and was not looked at may carry the return of one that was.
            for _ in 0..storing.len() {
                if let Some(Some((at, outcome))) = storing.next().now_or_never() {
                    confirmed[at] = Some(outcome);
                }
            }
        }
        let late = || {
            error(ErrorKind::OutcomeUnknown, operation)
                .with_source("the broker did not confirm it in time")
        };
        confirmed.into_iter().map(|outcome| outcome.unwrap_or_else(|| late().into())).collect()
    }

    async fn store_one(&self, it: &Publication, operation: &'static str) -> Confirmed {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (it.exchange.clone(), it.key.clone());
        let properties = it.properties.clone();
        let written =
            self.channel.basic_publish(exchange, key, options, &it.body, properties).await;
        match written {
            Ok(confirm) => confirmation(confirm.await, operation),
            Err(source) => from_lapin(&source, operation).into(),
        }
    }
}

/// Waits until the broker takes messages again: an alarm is no reason to connect anew.
async fn unblocked(
    connection: &Connection,
    deadline: Instant,
    operation: &'static str,
) -> Result<(), TransportError> {
    while connection.status().blocked() {
        if Instant::now() >= deadline {
            return Err(error(ErrorKind::Throttled { retry_after: None }, operation)
                .with_source("the broker blocks publishers: it is short of memory or disk"));
        }
        sleep(BLOCKED_PAUSE).await;
    }
    Ok(())
}

/// Whether the channel cannot be used again: it is gone, or an old confirm may still come.
fn breaks(failed: &TransportError) -> bool {
    !matches!(failed.kind, ErrorKind::Full)
}

/// How one publication ended, and a message that came back: this one, or any other of its batch.
struct Confirmed {
    result: Result<(), TransportError>,
    returned: Option<BasicReturnMessage>,
}

impl From<TransportError> for Confirmed {
    fn from(failed: TransportError) -> Self {
        Self { result: Err(failed), returned: None }
    }
}

fn confirmation(confirmed: lapin::Result<Confirmation>, operation: &'static str) -> Confirmed {
    match confirmed {
        Ok(Confirmation::Ack(returned)) => Confirmed { result: Ok(()), returned },
        Ok(Confirmation::Nack(returned)) => {
            let refused = error(ErrorKind::Full, operation)
                .with_source("the broker refused it; the queue is full, or has lost its majority");
            Confirmed { result: Err(refused), returned }
        }
        Ok(Confirmation::NotRequested) => error(ErrorKind::OutcomeUnknown, operation).into(),
        Err(source) if is_not_found(&source) => error(ErrorKind::Unusable, operation)
            .with_source(format!("there is no such exchange ({source})"))
            .into(),
        Err(source) => {
            error(ErrorKind::OutcomeUnknown, operation).with_source(source.to_string()).into()
        }
    }
}

/// Says of each publication whether it came back.
fn with_returns(window: &[Publication], confirmed: Vec<Confirmed>) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(window.len());
    let mut returns = Vec::new();
    for confirmed in confirmed {
        returns.extend(confirmed.returned);
        outcomes.push(confirmed.result.map(|()| Published::Stored));
    }
    for returned in returns {
        let same =
            |it: &Publication| it.properties == returned.properties && it.body == returned.data;
        let near =
            |it: &Publication| it.exchange == returned.exchange && it.key == returned.routing_key;
        let stored = |at: &usize| matches!(outcomes[*at], Ok(Published::Stored));
        let open: Vec<usize> = (0..window.len()).filter(stored).collect();
        let found = open.iter().find(|at| same(&window[**at]));
        if let Some(at) = found.or_else(|| open.iter().find(|at| near(&window[**at]))) {
            outcomes[*at] = Ok(Published::NotRouted);
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use lapin::message::Delivery;

    use super::*;

    fn publication(body: &'static str) -> Publication {
        let (exchange, key) = ("x".into(), "k".into());
        Publication { exchange, key, properties: BasicProperties::default(), body: body.into() }
    }

    fn confirmed(result: Result<(), TransportError>, returned: Option<&str>) -> Confirmed {
        let returned = returned.map(|body| BasicReturnMessage {
            delivery: Delivery::mock(0, "x".into(), "k".into(), false, body.into()),
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
        });
        Confirmed { result, returned }
    }

    #[track_caller]
    fn check(confirmed: [Confirmed; 2], stored: [bool; 2]) {
        let outcomes = with_returns(&["a", "b"].map(publication), confirmed.into());
        let is_stored = |it: &Outcome| matches!(it, Ok(Published::Stored));
        assert_eq!([is_stored(&outcomes[0]), is_stored(&outcomes[1])], stored, "{outcomes:?}");
    }

    #[test]
    fn what_came_back_is_not_stored_whoever_brings_it() {
        let refused = || Err(error(ErrorKind::Full, "send"));
        check([confirmed(Ok(()), None), confirmed(Ok(()), None)], [true, true]);
        check([confirmed(Ok(()), Some("a")), confirmed(Ok(()), None)], [false, true]);
        check([confirmed(Ok(()), None), confirmed(Ok(()), Some("a"))], [false, true]);
        check([confirmed(Ok(()), None), confirmed(refused(), Some("a"))], [false, false]);
    }
}

//! Publishing with pipelined confirms.
//!
//! A batch has a channel for itself until all its confirms are in. lapin hands a returned message to
//! whichever confirm comes next, so returns are only matched within a batch, by what was returned.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bezoar_core::{ErrorKind, TransportError};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{MaybeDone, maybe_done},
};
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
    error::{error, from_lapin, is_not_found, is_refused},
    link::Link,
};

/// How many batches are published at once. Who sends messages one by one needs as many as there are on their
/// way: a broker that syncs for a moment must not hold up the next.
const CHANNELS: usize = 32;
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

/// By what a publication is known again, should the broker return it.
struct Trace {
    exchange: ShortString,
    key: ShortString,
    id: Option<ShortString>,
    /// Of one without an id: an exchange may tell such by their headers.
    properties: Option<BasicProperties>,
    body: Bytes,
}

impl Trace {
    fn split(publication: Publication) -> (Self, BasicProperties) {
        let Publication { exchange, key, properties, body } = publication;
        let id = properties.message_id().clone();
        let copy = id.is_none().then(|| properties.clone());
        (Self { exchange, key, id, properties: copy, body }, properties)
    }

    /// Whether it went the same way.
    fn is_near(&self, returned: &BasicReturnMessage) -> bool {
        self.exchange == returned.exchange && self.key == returned.routing_key
    }

    fn is(&self, returned: &BasicReturnMessage) -> bool {
        let same = |properties: &BasicProperties| *properties == returned.properties;
        self.is_near(returned)
            && self.id == *returned.properties.message_id()
            && self.properties.as_ref().is_none_or(same)
            && self.body == returned.data
    }
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
    /// Whether something was published on it before.
    used: bool,
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
        mut batch: Vec<Publication>,
        operation: &'static str,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        while !batch.is_empty() {
            let later = batch.split_off(batch.len().min(WINDOW));
            let window = std::mem::replace(&mut batch, later);
            let count = window.len();
            match self.publish_window(window, operation).await {
                Ok(done) => outcomes.extend(done),
                Err(failed) => outcomes.extend((0..count).map(|_| Err(failed.again()))),
            }
        }
        outcomes
    }

    async fn publish_window(
        &self,
        window: Vec<Publication>,
        operation: &'static str,
    ) -> Result<Vec<Outcome>, TransportError> {
        let deadline = Instant::now() + self.options.confirm_timeout;
        let Ok(turn) = timeout_at(deadline, self.turns.acquire()).await else {
            return Err(error(ErrorKind::Throttled { retry_after: None }, operation)
                .with_source("too much waits to be published"));
        };
        let _turn = turn.expect("the semaphore is never closed");
        let mut line = self.line(deadline, operation).await?;
        unblocked(&line.connection, deadline, operation).await?;
        let (traces, properties): (Vec<_>, Vec<_>) = window.into_iter().map(Trace::split).unzip();
        let confirmed = line.store(&traces, properties, deadline, operation).await;
        if !confirmed.iter().any(|it| matches!(&it.result, Err(failed) if breaks(failed))) {
            line.used = true;
            self.lock_free().push(line);
        }
        Ok(with_returns(&traces, confirmed))
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
        Ok(Line { connection, channel, used: false })
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
    /// Writes all, in order, and waits for their confirms. What has none at the deadline is unknown.
    async fn store(
        &self,
        traces: &[Trace],
        properties: Vec<BasicProperties>,
        deadline: Instant,
        operation: &'static str,
    ) -> Vec<Confirmed> {
        let store =
            |(it, properties)| Box::pin(maybe_done(self.store_one(it, properties, operation)));
        let mut storing: Vec<_> = traces.iter().zip(properties).map(store).collect();
        // Each is written when it is first looked at.
        poll_each(&mut storing);
        // Backwards: the last is mostly confirmed last, and who waits for it is woken once and not for each.
        let waiting = async {
            for it in storing.iter_mut().rev() {
                it.as_mut().await;
            }
        };
        if timeout_at(deadline, waiting).await.is_err() {
            // A confirm that has come and was not looked at may carry the return of one that was.
            poll_each(&mut storing);
        }
        let late = || {
            error(ErrorKind::OutcomeUnknown, operation)
                .with_source("the broker did not confirm it in time")
        };
        let stored = storing.iter_mut().map(|it| it.as_mut().take_output());
        let stored = stored.map(|stored| stored.unwrap_or_else(|| late().into()));
        match self.used && traces.len() > 1 {
            true => stored.map(Confirmed::or_unknown).collect(),
            false => stored.collect(),
        }
    }

    async fn store_one(
        &self,
        it: &Trace,
        properties: BasicProperties,
        operation: &'static str,
    ) -> Confirmed {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let (exchange, key) = (it.exchange.clone(), it.key.clone());
        let written =
            self.channel.basic_publish(exchange, key, options, &it.body, properties).await;
        match written {
            Ok(confirm) => confirmation(confirm.await, operation),
            Err(source) => from_lapin(&source, operation).into(),
        }
    }
}

/// Goes on with each as far as it goes without waiting.
fn poll_each<F: Future>(some: &mut [Pin<Box<MaybeDone<F>>>]) {
    for it in some {
        let _ = it.as_mut().now_or_never();
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

impl Confirmed {
    /// A missing permission ends the channel, and the broker checks one again only once a minute: it may have
    /// stored the first of several publications before it refused one. On a new channel it refuses the first.
    fn or_unknown(mut self) -> Self {
        if let Err(failed) = &mut self.result
            && failed.kind == ErrorKind::NotAuthorized
        {
            failed.kind = ErrorKind::OutcomeUnknown;
        }
        self
    }
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
            .with_source(format!("exchange not found ({source})"))
            .into(),
        Err(source) if is_refused(&source) => from_lapin(&source, operation).into(),
        Err(source) => {
            error(ErrorKind::OutcomeUnknown, operation).with_source(source.to_string()).into()
        }
    }
}

/// Says of each publication whether it came back.
fn with_returns(traces: &[Trace], confirmed: Vec<Confirmed>) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(traces.len());
    let mut returns = Vec::new();
    for confirmed in confirmed {
        returns.extend(confirmed.returned);
        outcomes.push(confirmed.result.map(|()| Published::Stored));
    }
    for returned in returns {
        let stored = |at: &usize| matches!(outcomes[*at], Ok(Published::Stored));
        let open: Vec<usize> = (0..traces.len()).filter(stored).collect();
        let found = open.iter().find(|at| traces[**at].is(&returned));
        if let Some(at) = found.or_else(|| open.iter().find(|at| traces[**at].is_near(&returned))) {
            outcomes[*at] = Ok(Published::NotRouted);
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use lapin::message::Delivery;

    use super::*;

    fn trace(body: &'static str) -> Trace {
        let (exchange, key) = ("x".into(), "k".into());
        let properties = Some(BasicProperties::default());
        Trace { exchange, key, id: None, properties, body: body.into() }
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
        let outcomes = with_returns(&["a", "b"].map(trace), confirmed.into());
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

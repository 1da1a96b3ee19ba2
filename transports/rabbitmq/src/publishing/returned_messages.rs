//! Finds out which publications the broker returned as unroutable.
//!
//! lapin attaches a returned message to whichever confirm it reads next, so that the confirm of one publication may
//! carry the return of another. A channel publishes one batch at a time; so a return belongs to some publication of
//! the same batch, and is matched by exchange, routing key, id, properties and body.

use bezoar_core::{ErrorKind, TransportError};
use bytes::Bytes;
use lapin::{BasicProperties, message::BasicReturnMessage, types::ShortString};

use super::publisher::{Outcome, Publication, Published};

/// What identifies a publication, should the broker return it.
pub(super) struct SentRecord {
    pub(super) exchange: ShortString,
    pub(super) key: ShortString,
    id: Option<ShortString>,
    /// Only of a message without an id: a headers exchange may route two equal bodies differently.
    properties: Option<BasicProperties>,
    pub(super) body: Bytes,
}

impl SentRecord {
    /// The record, and the properties to publish with.
    pub(super) fn split(publication: Publication) -> (Self, BasicProperties) {
        let Publication { exchange, key, properties, body } = publication;
        let id = properties.message_id().clone();
        let copy = id.is_none().then(|| properties.clone());
        (Self { exchange, key, id, properties: copy, body }, properties)
    }

    /// Whether exchange and routing key are the same.
    fn has_route_of(&self, returned: &BasicReturnMessage) -> bool {
        self.exchange == returned.exchange && self.key == returned.routing_key
    }

    fn matches(&self, returned: &BasicReturnMessage) -> bool {
        let same = |properties: &BasicProperties| *properties == returned.properties;
        self.has_route_of(returned)
            && self.id == *returned.properties.message_id()
            && self.properties.as_ref().is_none_or(same)
            && self.body == returned.data
    }
}

/// The confirm of one publication. The returned message may be another one of the same batch.
pub(super) struct Confirmed {
    pub(super) result: Result<(), TransportError>,
    pub(super) returned: Option<BasicReturnMessage>,
}

impl Confirmed {
    /// Turns a missing permission into an unknown outcome. The broker caches permissions for a minute, so it may have
    /// stored some publications of a batch before it refused one and closed the channel.
    pub(super) fn or_unknown(mut self) -> Self {
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

/// The outcome of each publication, taking returned messages into account.
pub(super) fn with_returns(records: &[SentRecord], confirmed: Vec<Confirmed>) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(records.len());
    let mut returns = Vec::new();
    for confirmed in confirmed {
        returns.extend(confirmed.returned);
        outcomes.push(confirmed.result.map(|()| Published::Stored));
    }
    for returned in returns {
        let stored = |at: &usize| matches!(outcomes[*at], Ok(Published::Stored));
        let open: Vec<usize> = (0..records.len()).filter(stored).collect();
        let found = open.iter().find(|at| records[**at].matches(&returned));
        if let Some(at) =
            found.or_else(|| open.iter().find(|at| records[**at].has_route_of(&returned)))
        {
            outcomes[*at] = Ok(Published::NotRouted);
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use lapin::message::Delivery;

    use super::*;
    use crate::error::error;

    fn record(body: &'static str) -> SentRecord {
        let (exchange, key) = ("x".into(), "k".into());
        let properties = Some(BasicProperties::default());
        SentRecord { exchange, key, id: None, properties, body: body.into() }
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
        let outcomes = with_returns(&["a", "b"].map(record), confirmed.into());
        let is_stored = |it: &Outcome| matches!(it, Ok(Published::Stored));
        assert_eq!([is_stored(&outcomes[0]), is_stored(&outcomes[1])], stored, "{outcomes:?}");
    }

    #[test]
    fn a_returned_message_is_not_stored_whichever_confirm_carries_it() {
        let refused = || Err(error(ErrorKind::Full, "send"));
        check([confirmed(Ok(()), None), confirmed(Ok(()), None)], [true, true]);
        check([confirmed(Ok(()), Some("a")), confirmed(Ok(()), None)], [false, true]);
        check([confirmed(Ok(()), None), confirmed(Ok(()), Some("a"))], [false, true]);
        check([confirmed(Ok(()), None), confirmed(refused(), Some("a"))], [false, false]);
    }
}

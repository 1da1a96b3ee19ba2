//! Builds a message from the headers of a request, or from an item of a batch.

use std::time::Duration;

use bezoar::{
    Body, ContentType, CorrelationId, Headers, Invalid, Message, MessageId, MessageType, Outgoing,
};
use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;

use super::Problem;
use crate::{api_types::BatchItem, config::human};

/// The type of a message whose sender specified none.
const UNTYPED: &str = "message";
/// How long an id is accepted only once.
const ONCE_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// Headers of a request that become headers of the message.
const HEADER_PREFIX: &str = "bezoar-header-";
/// How the body is compressed: a header of the message, with which it is delivered.
const CONTENT_ENCODING: &str = "content-encoding";

/// Builds a message from a request's headers and body.
pub(super) fn from_request(
    headers: &HeaderMap,
    body: Body,
    now: Timestamp,
) -> Result<Outgoing, Problem> {
    let text = |name: &'static str| -> Result<Option<&str>, Problem> {
        let Some(value) = headers.get(name) else { return Ok(None) };
        let text = std::str::from_utf8(value.as_bytes());
        text.map(Some).map_err(|_| Problem::bad_request(format!("header {name} is not UTF-8")))
    };
    let mut own = message_headers(headers)?;
    own.extend(text(CONTENT_ENCODING)?.map(|it| (CONTENT_ENCODING.to_owned(), it.to_owned())));
    let item = BatchItem {
        id: text("bezoar-id")?.map(str::to_owned),
        r#type: text("bezoar-type")?.map(str::to_owned),
        correlation_id: text("bezoar-correlation-id")?.map(str::to_owned),
        causation_id: text("bezoar-causation-id")?.map(str::to_owned),
        content_type: text("content-type")?.map(str::to_owned),
        delay: text("bezoar-delay")?.map(str::to_owned),
        headers: own,
        body: None,
        body_base64: None,
    };
    item.into_outgoing(body, now)
}

fn message_headers(
    headers: &HeaderMap,
) -> Result<std::collections::BTreeMap<String, String>, Problem> {
    let named = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix(HEADER_PREFIX)?, value)));
    named
        .map(|(name, value)| match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok((name.to_owned(), text.to_owned())),
            Err(_) => {
                Err(Problem::bad_request(format!("header {HEADER_PREFIX}{name} is not UTF-8")))
            }
        })
        .collect()
}

impl BatchItem {
    /// Builds a message from an item that contains its body.
    pub(super) fn into_message(mut self, now: Timestamp) -> Result<Outgoing, Problem> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let body = match (self.body.take(), self.body_base64.take()) {
            (Some(json), None) => {
                self.content_type.get_or_insert_with(|| "application/json".to_owned());
                Bytes::from(Box::<str>::from(json).into_boxed_bytes())
            }
            (None, Some(text)) => Bytes::from(STANDARD.decode(text).map_err(|_| {
                Problem::bad_request("body_base64 is not valid base64 (standard alphabet, padded)")
            })?),
            _ => return Err(Problem::bad_request("a message needs either body or body_base64")),
        };
        self.into_outgoing(body.into(), now)
    }

    fn into_outgoing(self, body: Body, now: Timestamp) -> Result<Outgoing, Problem> {
        let given = self.id.map(MessageId::new).transpose()?;
        let once = given.is_some().then_some(ONCE_WITHIN);
        let id = given.unwrap_or_else(|| MessageId::generate(now, &mut rand::rng()));
        let message_type = MessageType::new(self.r#type.as_deref().unwrap_or(UNTYPED))?;
        let mut message = Message::new(id, message_type, now, body);
        message.correlation_id = self.correlation_id.map(CorrelationId::new).transpose()?;
        message.causation_id = self.causation_id.map(MessageId::new).transpose()?;
        message.content_type = self.content_type.map(ContentType::new).transpose()?;
        message.headers =
            self.headers.into_iter().map(|(name, value)| (name, value.into())).collect::<Headers>();
        message.check_headers()?; // now, so that too many of them are not kept until the batch is stored
        let delay = self.delay.as_deref().map(human::duration::parse).transpose();
        // The parser's error quotes the value.
        let expected = "is not a duration; use a form such as 30s, 5m, 1h30m or 250ms";
        let delay = delay.map_err(|_| Invalid::new("delay", expected))?;
        let mut outgoing = Outgoing::from(message).after(delay.unwrap_or_default());
        outgoing.once = once;
        Ok(outgoing)
    }
}

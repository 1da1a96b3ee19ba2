//! A message of ours as properties, and any message as one of ours.

use bezoar_core::{
    Body, ContentType, CorrelationId, Headers, Invalid, Message, MessageId, MessageType, QueueName,
    millis,
};
use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use sha2::{Digest, Sha256};

use super::{
    PERSISTENT, Raw, binding,
    header_names::{
        CAUSATION_ID, CONTENT_ENCODING, EXPIRES_AT, HEADERS, ID, OURS, TIME, is_bound,
        is_broker_header, is_reserved,
    },
    header_size,
    header_table::{Table, number, shown, string, text},
    ledger,
};

/// The type of a message that was sent without one.
pub(super) const UNTYPED: &str = "untyped";

/// The properties of a message of ours; `queue` is where it is sent to, unless that is an exchange.
pub(crate) fn write(
    message: &Message,
    queue: Option<&QueueName>,
) -> Result<BasicProperties, Invalid> {
    let mut headers = headers(message)?;
    let size = header_size::of_table(&headers);
    let limit = header_size::LIMIT_BYTES - header_size::OURS_BYTES;
    if size > limit {
        let problem = format!("take {size} bytes of a frame, the limit is {limit}");
        return Err(Invalid::new("headers", problem));
    }
    ledger::write(&mut headers, &message.ledger, queue);
    if headers.keys().any(|name| is_bound(name.as_str())) {
        binding::write(&mut headers, Some(&message.id.as_str().into()), message.body.reveal());
    }
    Ok(properties(message, headers))
}

/// The properties of a message as its sender would set them: without a ledger, whatever the size.
pub(super) fn plain(message: &Message) -> Result<BasicProperties, Invalid> {
    Ok(properties(message, headers(message)?))
}

fn headers(message: &Message) -> Result<Table, Invalid> {
    let (mut headers, mut inner) = (Table::new(), Table::new());
    let is_property = |name: &str| name == CONTENT_ENCODING && content_encoding(message).is_some();
    for (name, value) in message.headers.iter().filter(|(name, _)| !is_property(name)) {
        let short = ShortString::try_new(name.as_str()).map_err(|_| {
            Invalid::new(
                "header",
                format!("has a name of {} bytes, at most 255 are accepted", name.len()),
            )
        })?;
        let table = if is_reserved(name) { &mut inner } else { &mut headers };
        table.insert(short, text(value.reveal().as_str()));
    }
    if !inner.is_empty() {
        headers.insert(HEADERS.into(), AMQPValue::FieldTable(inner.into()));
    }
    headers.insert(TIME.into(), AMQPValue::LongLongInt(message.time.as_millisecond()));
    if let Some(at) = message.expires_at {
        headers.insert(EXPIRES_AT.into(), AMQPValue::LongLongInt(at.as_millisecond()));
    }
    if let Some(cause) = &message.causation_id {
        headers.insert(CAUSATION_ID.into(), text(cause.as_str()));
    }
    Ok(headers)
}

fn properties(message: &Message, headers: Table) -> BasicProperties {
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message.id.as_str().into())
        .with_type(message.message_type.as_str().into())
        .with_headers(headers.into());
    if let Ok(seconds) = u64::try_from(message.time.as_second()) {
        properties = properties.with_timestamp(seconds);
    }
    if let Some(id) = &message.correlation_id {
        properties = properties.with_correlation_id(id.as_str().into());
    }
    if let Some(content_type) = &message.content_type {
        properties = properties.with_content_type(content_type.as_str().into());
    }
    match content_encoding(message) {
        Some(encoding) => properties.with_content_encoding(encoding),
        None => properties,
    }
}

/// How the body is compressed, as the property that other clients look at. The header of this name, written like this, is
/// not repeated among the headers.
fn content_encoding(message: &Message) -> Option<ShortString> {
    let mut headers = message.headers.iter();
    let (_, value) = headers.find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_ENCODING))?;
    ShortString::try_new(value.reveal().as_str()).ok()
}

/// What a message gets that came without a time or an id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Substitutes {
    pub(crate) time: Timestamp,
    pub(crate) random: u64,
}

impl Substitutes {
    /// The time of its arrival, and a new random number.
    pub(crate) fn new(time: Timestamp) -> Self {
        Self { time, random: rand::random() }
    }
}

/// Parses a delivered message. A missing id or time gets a substitute, which it keeps once it is republished.
pub(crate) fn read(raw: &Raw, substitutes: Substitutes) -> Message {
    let properties = &raw.properties;
    let none = Table::new();
    let headers = properties.headers().as_ref().map_or(&none, FieldTable::inner);
    let id = match string(headers, ID) {
        Some(assigned) => MessageId::new(assigned).ok(),
        None => properties.message_id().as_ref().and_then(|id| MessageId::new(id.as_str()).ok()),
    };
    let id = id.unwrap_or_else(|| assigned_id(raw, substitutes.random));
    let message_type =
        properties.kind().as_ref().and_then(|kind| MessageType::new(kind.as_str()).ok());
    let message_type =
        message_type.unwrap_or_else(|| MessageType::new(UNTYPED).expect("it is a short word"));
    let seconds = properties.timestamp().and_then(|seconds| i64::try_from(seconds).ok());
    let time = number(headers, TIME)
        .or(seconds.map(|seconds| seconds.saturating_mul(1_000)))
        .map_or(substitutes.time, millis);
    let mut message = Message::new(id, message_type, time, Body::from(raw.body.clone()));
    let correlation_id = properties.correlation_id().as_ref();
    message.correlation_id = correlation_id.and_then(|id| CorrelationId::new(id.as_str()).ok());
    message.causation_id = string(headers, CAUSATION_ID).and_then(|id| MessageId::new(id).ok());
    let content_type = properties.content_type().as_ref();
    message.content_type = content_type.and_then(|it| ContentType::new(it.as_str()).ok());
    message.expires_at = number(headers, EXPIRES_AT).map(millis);
    message.headers = read_headers(headers);
    if let Some(encoding) = properties.content_encoding()
        && !message.headers.keys().any(|name| name.eq_ignore_ascii_case(CONTENT_ENCODING))
    {
        message.headers.insert(CONTENT_ENCODING.to_owned(), encoding.to_string().into());
    }
    message.ledger = ledger::read(headers, &raw.queue);
    message
}

/// An id for a message without one. The digest covers only what the broker keeps unchanged when it dead-letters the
/// message by itself.
fn assigned_id(raw: &Raw, random: u64) -> MessageId {
    let mut hash = Sha256::new();
    let properties = &raw.properties;
    for part in [properties.correlation_id(), properties.kind(), properties.app_id()] {
        hash.update(part.as_ref().map(ShortString::as_str).unwrap_or_default());
        hash.update([0]);
    }
    hash.update(properties.timestamp().unwrap_or(0).to_be_bytes());
    hash.update(&raw.body);
    let digest = hash.finalize();
    MessageId::assign(u64::from_be_bytes(std::array::from_fn(|place| digest[place])), random)
}

fn read_headers(headers: &Table) -> Headers {
    let inner = match headers.get(HEADERS) {
        Some(AMQPValue::FieldTable(inner)) => inner.inner().clone(),
        _ => Table::new(),
    };
    let outer = headers.iter().filter(|(name, _)| {
        !name.as_str().starts_with(OURS)
            && !is_broker_header(name.as_str())
            && !name.as_str().is_empty()
    });
    let both = outer.chain(&inner);
    both.map(|(name, value)| (name.to_string(), shown(value).into())).collect()
}

//! Republishing a message: with the properties that it came with, and its current ledger.

use bezoar_core::{Message, QueueName, millis};
use jiff::Timestamp;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};

use super::{
    PERSISTENT, Raw, binding,
    header_names::{
        COPIES, DUE, EXCHANGE, EXPIRATION, HEADERS, ID, QUEUE, RENEWED, ROUTING_KEY, TIME, USER_ID,
        is_broker_header,
    },
    header_table::{Table, number, table_of, text},
    ledger,
};

/// The properties of a message that waits for a retry: as it came, with its current ledger.
pub(crate) fn republished(raw: &Raw, message: &Message) -> BasicProperties {
    let mut headers = bound_headers(raw, message);
    ledger::write(&mut headers, &message.ledger, Some(&raw.queue));
    inert_properties(&raw.properties).with_headers(headers.into())
}

/// The properties of a message that goes directly back to its queue: its expiration applies again.
pub(crate) fn requeued(raw: &Raw, message: &Message) -> BasicProperties {
    let properties = republished(raw, message);
    let kept = properties.headers().as_ref().and_then(|headers| headers.inner().get(EXPIRATION));
    let expiration = kept.and_then(AMQPValue::as_long_string);
    match expiration.and_then(|it| valid_expiration(it.as_bytes())) {
        Some(expiration) => {
            let mut headers = table_of(&properties);
            headers.remove(EXPIRATION);
            properties.with_headers(headers.into()).with_expiration(expiration)
        }
        None => properties,
    }
}

/// The same for the route through the delay queues. The broker removes the `BCC` header and remembers its keys. The name
/// of the queue and the time tell where and when the message belongs, should it lose its way.
pub(crate) fn delayed(
    properties: BasicProperties,
    hop_keys: &[String],
    (queue, due): (&QueueName, Timestamp),
    body: &[u8],
) -> BasicProperties {
    let mut headers = table_of(&properties);
    headers.insert(QUEUE.into(), text(queue.as_str()));
    headers.insert(DUE.into(), AMQPValue::LongLongInt(due.as_millisecond()));
    binding::write(&mut headers, properties.message_id().as_ref(), body);
    let hop_keys: Vec<_> = hop_keys.iter().map(|turn| text(turn)).collect();
    headers.insert("BCC".into(), AMQPValue::FieldArray(hop_keys.into()));
    properties.with_headers(headers.into())
}

/// When the delay of a message ends, if it is delayed.
pub(crate) fn due(raw: &Raw) -> Option<Timestamp> {
    let headers = raw.properties.headers().as_ref()?.inner();
    number(headers, DUE).map(millis)
}

/// A valid expiration. Anything else would make the broker close the channel, every time.
fn valid_expiration(text: &[u8]) -> Option<ShortString> {
    let millis: u32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(millis.to_string().into())
}

/// The carried headers, bound to the message.
pub(super) fn bound_headers(raw: &Raw, message: &Message) -> Table {
    let mut headers = carried_headers(raw, message);
    binding::write(&mut headers, raw.properties.message_id().as_ref(), &raw.body);
    headers
}

/// The headers that a message keeps, and the properties that it cannot keep, as headers.
pub(super) fn carried_headers(raw: &Raw, message: &Message) -> Table {
    let properties = &raw.properties;
    let is_kept = |name: &str| !RENEWED.contains(&name) && !is_broker_header(name);
    let all = properties.headers().iter().flat_map(FieldTable::inner);
    let kept = all.filter(|(name, _)| is_kept(name.as_str()));
    let mut headers: Table = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    hide_copies(&mut headers);
    let mut keep = |name: &str, value: AMQPValue| {
        headers.entry(name.into()).or_insert(value);
    };
    keep(TIME, AMQPValue::LongLongInt(message.time.as_millisecond()));
    if properties.message_id().as_ref().map(ShortString::as_str) != Some(message.id.as_str()) {
        keep(ID, text(message.id.as_str()));
    }
    if let Some(expiration) = properties.expiration() {
        keep(EXPIRATION, text(expiration.as_str()));
    }
    if let Some(user) = properties.user_id() {
        keep(USER_ID, text(user.as_str()));
    }
    if !raw.exchange.as_str().is_empty() && !raw.exchange.as_str().starts_with("bezoar.") {
        // Where it was delivered from now overrides what its headers say.
        headers.insert(EXCHANGE.into(), text(raw.exchange.as_str()));
        headers.insert(ROUTING_KEY.into(), text(raw.routing_key.as_str()));
    }
    headers
}

/// Moves `CC` and `BCC` into `bezoar-headers`: otherwise every retry would send copies again.
fn hide_copies(headers: &mut Table) {
    let found: Vec<_> = COPIES.iter().filter_map(|name| headers.remove_entry(*name)).collect();
    if found.is_empty() {
        return;
    }
    let mut inner = match headers.remove(HEADERS) {
        Some(AMQPValue::FieldTable(inner)) => inner.inner().clone(),
        _ => Table::new(),
    };
    inner.extend(found);
    headers.insert(HEADERS.into(), AMQPValue::FieldTable(inner.into()));
}

/// All properties except those that the broker acts on: a message that expires would vanish from a dead-letter queue,
/// and one with the id of another user is refused.
pub(super) fn inert_properties(properties: &BasicProperties) -> BasicProperties {
    type Setter = fn(BasicProperties, ShortString) -> BasicProperties;
    let texts: [(&Option<ShortString>, Setter); 8] = [
        (properties.content_type(), BasicProperties::with_content_type),
        (properties.content_encoding(), BasicProperties::with_content_encoding),
        (properties.correlation_id(), BasicProperties::with_correlation_id),
        (properties.reply_to(), BasicProperties::with_reply_to),
        (properties.message_id(), BasicProperties::with_message_id),
        (properties.kind(), BasicProperties::with_type),
        (properties.app_id(), BasicProperties::with_app_id),
        (properties.cluster_id(), BasicProperties::with_cluster_id),
    ];
    let mut kept = BasicProperties::default().with_delivery_mode(PERSISTENT);
    for (value, with) in texts {
        if let Some(value) = value {
            kept = with(kept, value.clone());
        }
    }
    if let Some(timestamp) = properties.timestamp() {
        kept = kept.with_timestamp(*timestamp);
    }
    if let Some(priority) = properties.priority() {
        kept = kept.with_priority(*priority);
    }
    kept
}

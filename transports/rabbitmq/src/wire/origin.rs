//! What only AMQP has a place for: the exchange and routing key of a message, properties without a counterpart in an
//! envelope, and header values that are not texts.
//!
//! A dead letter that goes to a catalogue takes them along in headers (`pack`); a replay restores them (`unpack`). What
//! an operator has edited meanwhile stays edited: a header is restored only if its text is unchanged.

use bezoar_core::{Invalid, Message, QueueName};
use lapin::{
    BasicProperties,
    types::{AMQPValue, ShortString},
};
use serde_json::{Map, Value, json};

use super::{
    PERSISTENT, Raw,
    header_names::{EXCHANGE, HEADERS, ID, OURS, ROUTING_KEY, USER_ID, VHOST},
    header_table::{Table, shown, string, table_of, text},
    message::plain,
    republish::{carried_headers, requeued},
    typed_values,
};

/// The header that holds the rest of the AMQP properties and header types, as JSON.
const ORIGIN: &str = "bezoar-amqp";
/// The headers that `pack` adds; a sender's own headers of these names are kept in [`ORIGIN`].
const ADDED: [&str; 4] = [ORIGIN, EXCHANGE, ROUTING_KEY, VHOST];

/// Where a dead letter in a catalogue was published to before it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The exchange; empty for the default exchange.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The virtual host of both.
    pub vhost: String,
}

impl Origin {
    /// The origin of a dead letter that was taken in from a broker; `None` if it is not known, as for a message that was
    /// published to its queue directly.
    pub fn of(message: &Message) -> Option<Self> {
        message.headers.get(ORIGIN)?;
        let text = |name| message.headers.get(name).map(|it| it.reveal().clone());
        let vhost = text(VHOST).unwrap_or_default();
        Some(Self { exchange: text(EXCHANGE)?, routing_key: text(ROUTING_KEY)?, vhost })
    }

    /// Whether a header of a dead letter was added when the dead letter was taken in from a broker, because a replay needs
    /// it.
    pub fn is_header(message: &Message, name: &str) -> bool {
        message.headers.contains_key(ORIGIN) && ADDED.contains(&name)
    }
}

/// Where a replayed message goes, and with which properties.
#[derive(Clone)]
pub(crate) struct ReplayTarget {
    /// The exchange and routing key that it was published with, if they are known.
    pub(crate) came_by: Option<(ShortString, ShortString)>,
    /// The properties to publish it with.
    pub(crate) properties: BasicProperties,
}

impl ReplayTarget {
    /// The properties for publishing it to the queue directly; headers remember the exchange.
    pub(crate) fn to_queue(&self) -> BasicProperties {
        let came_by = self.came_by.as_ref().filter(|(exchange, _)| !exchange.as_str().is_empty());
        let Some((exchange, key)) = came_by else { return self.properties.clone() };
        let mut headers = table_of(&self.properties);
        headers.insert(EXCHANGE.into(), text(exchange.as_str()));
        headers.insert(ROUTING_KEY.into(), text(key.as_str()));
        self.properties.clone().with_headers(headers.into())
    }
}

/// The replay target of a dead letter. `user` is our own user: the broker refuses the id of another.
pub(crate) fn replay_target(raw: &Raw, message: &Message, user: &str) -> ReplayTarget {
    let mut properties = requeued(raw, message);
    let mut headers = table_of(&properties);
    let (exchange, key) = (headers.remove(EXCHANGE), headers.remove(ROUTING_KEY));
    let came_by = exchange.zip(key).and_then(|(exchange, key)| short(&exchange).zip(short(&key)));
    if string(&headers, USER_ID).as_deref() == Some(user) {
        headers.remove(USER_ID);
        properties = properties.with_user_id(user.into());
    }
    let came_by = came_by.filter(|(exchange, _)| is_foreign(exchange.as_str()));
    let origin_queue = || {
        let (exchange, key) = (raw.exchange.clone(), raw.routing_key.clone());
        (exchange.as_str().is_empty() && !key.as_str().is_empty()).then_some((exchange, key))
    };
    let came_by = came_by.or_else(origin_queue);
    ReplayTarget { came_by, properties: properties.with_headers(headers.into()) }
}

/// A dead letter with the exchange and routing key that its message was published with. Its own are those of the
/// dead-letter exchange.
pub(crate) fn with_original_route(raw: Raw) -> Raw {
    let (exchange, routing_key) = route_from_x_death(&raw).unwrap_or_default();
    Raw { exchange, routing_key, ..raw }
}

/// The original exchange and routing key of a message that the broker dead-lettered, from the latest entry of `x-death`.
fn route_from_x_death(raw: &Raw) -> Option<(ShortString, ShortString)> {
    let headers = raw.properties.headers().as_ref()?.inner();
    let latest = headers.get("x-death")?.as_array()?.as_slice().first()?.as_field_table()?.inner();
    let key = latest.get("routing-keys")?.as_array()?.as_slice().first()?;
    let exchange = short(latest.get("exchange")?)?;
    is_foreign(exchange.as_str()).then_some(())?;
    Some((exchange, short(key)?))
}

fn is_foreign(exchange: &str) -> bool {
    !exchange.is_empty() && !exchange.starts_with("bezoar.")
}

fn short(value: &AMQPValue) -> Option<ShortString> {
    ShortString::try_new(shown(value)).ok()
}

/// The message for a catalogue. Without anything special it stays as it is. `origin` is the queue that it failed in, if
/// that is not the one whose dead letters are taken in.
pub(crate) fn pack(
    raw: &Raw,
    mut message: Message,
    origin: Option<&QueueName>,
    vhost: &str,
) -> Message {
    let Ok(plain) = plain(&message) else { return message };
    let (mut outer, mut inner) = split(carried_headers(raw, &message));
    let (plain_outer, plain_inner) = split(table_of(&plain));
    let came_by = outer.remove(EXCHANGE).zip(outer.remove(ROUTING_KEY));
    // The default exchange leads to every queue by its name.
    let came_by = came_by.or_else(|| Some((text(""), text(origin?.as_str()))));
    outer.remove(ID); // the envelope has it; an assigned one must not make equal letters different
    let odd = |from: Table, plain: &Table| -> Table {
        let is_odd = |name: &ShortString, value: &AMQPValue| {
            ADDED.contains(&name.as_str()) || plain.get(name.as_str()) != Some(value)
        };
        from.into_iter()
            .filter(|(name, it)| is_odd(name, it) && typed_values::is_writable(it))
            .collect()
    };
    (outer, inner) = (odd(outer, &plain_outer), odd(inner, &plain_inner));
    let properties = different(&raw.properties, &plain);
    if came_by.is_none() && outer.is_empty() && inner.is_empty() && properties.is_empty() {
        return message;
    }
    let origin = json!({
        "properties": properties,
        "headers": typed_values::write_table(&outer),
        "own": typed_values::write_table(&inner),
    });
    ADDED.iter().for_each(|name| drop(message.headers.remove(*name)));
    if let Some((exchange, key)) = came_by {
        message.headers.insert(EXCHANGE.into(), shown(&exchange).into());
        message.headers.insert(ROUTING_KEY.into(), shown(&key).into());
        message.headers.insert(VHOST.into(), vhost.to_owned().into());
    }
    message.with_header(ORIGIN, origin.to_string())
}

/// The message as it was on the broker, in `queue`. One that was not packed becomes what we would send.
pub(crate) fn unpack(queue: &QueueName, message: &Message) -> Result<(Raw, Message), Invalid> {
    let mut message = message.clone();
    let (mut origin, mut came_by) = (Value::Null, (ShortString::default(), ShortString::default()));
    if let Some(text) = message.headers.remove(ORIGIN) {
        origin = serde_json::from_str(text.reveal())
            .map_err(|_| Invalid::new("header bezoar-amqp", "is damaged; remove or repair it"))?;
        let mut take = |name| {
            let text = message.headers.remove(name).map(|it| it.into_revealed());
            ShortString::try_new(text.unwrap_or_default()).unwrap_or_default()
        };
        came_by = (take(EXCHANGE), take(ROUTING_KEY));
        take(VHOST);
    }
    let (outer, inner) =
        (typed_values::read_table(&origin["headers"]), typed_values::read_table(&origin["own"]));
    for (name, value) in ADDED.iter().filter_map(|name| inner.get_key_value(*name)) {
        message.headers.insert(name.to_string(), shown(value).into());
    }
    let plain = plain(&message)?;
    let headers = merged(&message, table_of(&plain), outer, inner);
    let properties = restored(&plain, &origin["properties"]).with_headers(headers.into());
    let (body, (exchange, routing_key)) = (message.body.reveal().clone(), came_by);
    Ok((Raw { properties, body, exchange, routing_key, queue: queue.clone() }, message))
}

/// Headers as we would send them, but with their original values where the text is unchanged.
fn merged(message: &Message, plain: Table, outer: Table, inner: Table) -> Table {
    let says = |name: &ShortString, value: &AMQPValue| {
        let said = message.headers.get(name.as_str());
        said.is_some_and(|said| *said.reveal() == shown(value))
    };
    let (mut headers, mut own) = split(plain);
    for (name, value) in outer {
        let edited = own.remove(name.as_str());
        if name.as_str().starts_with(OURS) || says(&name, &value) {
            headers.insert(name, value);
        } else if let Some(edited) = edited {
            headers.insert(name, edited);
        }
    }
    own.extend(inner.into_iter().filter(|(name, value)| says(name, value)));
    if !own.is_empty() {
        headers.insert(HEADERS.into(), AMQPValue::FieldTable(own.into()));
    }
    headers
}

/// Splits headers into the visible ones and those in `bezoar-headers`.
fn split(mut headers: Table) -> (Table, Table) {
    match headers.remove(HEADERS) {
        Some(AMQPValue::FieldTable(inner)) => (headers, inner.inner().clone()),
        _ => (headers, Table::new()),
    }
}

type Getter = fn(&BasicProperties) -> &Option<ShortString>;
type Setter = fn(BasicProperties, ShortString) -> BasicProperties;

const TEXTS: [(&str, Getter, Setter); 8] = [
    ("content_type", BasicProperties::content_type, BasicProperties::with_content_type),
    ("content_encoding", BasicProperties::content_encoding, BasicProperties::with_content_encoding),
    ("correlation_id", BasicProperties::correlation_id, BasicProperties::with_correlation_id),
    ("reply_to", BasicProperties::reply_to, BasicProperties::with_reply_to),
    ("message_id", BasicProperties::message_id, BasicProperties::with_message_id),
    ("type", BasicProperties::kind, BasicProperties::with_type),
    ("app_id", BasicProperties::app_id, BasicProperties::with_app_id),
    ("cluster_id", BasicProperties::cluster_id, BasicProperties::with_cluster_id),
];

/// The properties that differ from what we would send; an absent one is null.
fn different(actual: &BasicProperties, plain: &BasicProperties) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, get, _) in TEXTS.iter().filter(|(_, get, _)| get(actual) != get(plain)) {
        found.insert((*name).to_owned(), json!(get(actual).as_ref().map(ShortString::as_str)));
    }
    if actual.timestamp() != plain.timestamp() {
        found.insert("timestamp".to_owned(), json!(actual.timestamp()));
    }
    if let Some(priority) = actual.priority() {
        found.insert("priority".to_owned(), json!(priority));
    }
    found
}

fn restored(plain: &BasicProperties, different: &Value) -> BasicProperties {
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    for (name, get, with) in TEXTS {
        let value = match different.get(name) {
            Some(value) => value.as_str().and_then(|text| ShortString::try_new(text).ok()),
            None => get(plain).clone(),
        };
        if let Some(value) = value {
            properties = with(properties, value);
        }
    }
    let timestamp = match different.get("timestamp") {
        Some(seconds) => seconds.as_u64(),
        None => *plain.timestamp(),
    };
    if let Some(seconds) = timestamp {
        properties = properties.with_timestamp(seconds);
    }
    let priority = different["priority"].as_u64().and_then(|it| u8::try_from(it).ok());
    match priority {
        Some(priority) => properties.with_priority(priority),
        None => properties,
    }
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;

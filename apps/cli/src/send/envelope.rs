//! The envelope of a message: as request headers, or as members of a batch line.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bezoar::{ContentType, CorrelationId, MessageId, MessageType};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::duration;

#[derive(Debug, clap::Args)]
#[group(skip)] // its name would clash with the group that it is flattened into
pub(super) struct Arguments {
    /// Message type, passed on to the endpoint or used to choose a handler [default: message]
    #[arg(long = "type", value_name = "T")]
    message_type: Option<MessageType>,
    /// Correlation id that connects related messages
    #[arg(long, value_name = "C")]
    correlation_id: Option<CorrelationId>,
    /// Media type of the body [default: application/json for a JSON object or array]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<ContentType>,
    /// Message header; may be repeated
    #[arg(long = "header", value_name = "K=V", value_parser = sensitive)]
    headers: Vec<SecretString>,
    /// Delay before the message can be delivered, such as 5s or 1h30m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    delay: Option<Duration>,
}

/// An argument that clap neither prints nor quotes in errors.
pub(super) fn sensitive(text: &str) -> Result<SecretString, Infallible> {
    Ok(text.into())
}

/// What the messages have in common. It contains header values and therefore has no `Debug`.
pub(super) struct Envelope {
    message_type: Option<String>,
    correlation_id: Option<String>,
    content_type: Option<String>,
    delay: Option<String>,
    headers: BTreeMap<String, String>,
}

/// A line of a batch.
#[derive(Serialize)]
struct BatchItem<'a> {
    id: &'a str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    message_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Envelope {
    /// Rejects what a request cannot carry unchanged. The error quotes no value.
    pub(super) fn new(arguments: Arguments) -> Result<Self, String> {
        let headers = arguments.headers.iter().map(|text| header(text.expose_secret()));
        let envelope = Self {
            message_type: arguments.message_type.map(|it| it.to_string()),
            correlation_id: arguments.correlation_id.map(|it| it.to_string()),
            content_type: arguments.content_type.map(|it| it.to_string()),
            delay: arguments.delay.map(|delay| format!("{}ms", delay.as_millis())),
            headers: headers.collect::<Result<_, _>>()?,
        };
        for (name, text) in envelope.named() {
            carried(text).ok_or_else(|| format!("--{name} must not start or end with a space"))?;
        }
        Ok(envelope)
    }

    /// The headers of a request for one message.
    pub(super) fn headers(&self, id: &MessageId, body: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put = |name: &str, text: &str| {
            let name: HeaderName = name.parse().expect("the names were checked");
            headers.insert(
                name,
                HeaderValue::from_bytes(text.as_bytes()).expect("the values were checked"),
            );
        };
        put("bezoar-id", id.as_str());
        self.named().for_each(|(name, text)| put(&format!("bezoar-{name}"), text));
        self.headers.iter().for_each(|(name, text)| put(&format!("bezoar-header-{name}"), text));
        // Files and pipes usually end with a newline, which does not matter here.
        let guessed = as_json(body.trim_ascii()).map(|_| "application/json");
        if let Some(content_type) = self.content_type.as_deref().or(guessed) {
            put(header::CONTENT_TYPE.as_str(), content_type);
        }
        headers
    }

    /// Writes one line of a batch.
    pub(super) fn write_item(&self, id: &MessageId, body: &[u8], into: &mut Vec<u8>) {
        let json = as_json(body);
        let item = BatchItem {
            id: id.as_str(),
            message_type: self.message_type.as_deref(),
            correlation_id: self.correlation_id.as_deref(),
            content_type: self.content_type.as_deref(),
            delay: self.delay.as_deref(),
            headers: &self.headers,
            body: json,
            body_base64: json.is_none().then(|| STANDARD.encode(body)),
        };
        serde_json::to_writer(&mut *into, &item).expect("text and JSON, written to memory");
        into.push(b'\n');
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("type", &self.message_type),
            ("correlation-id", &self.correlation_id),
            ("delay", &self.delay),
        ];
        all.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)))
    }
}

/// Objects and arrays are treated as JSON; `7` and `true` as plain text.
fn as_json(body: &[u8]) -> Option<&RawValue> {
    let is_whole =
        matches!((body.first(), body.last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')));
    if is_whole { serde_json::from_slice(body).ok() } else { None }
}

/// Names are case-insensitive, as in HTTP.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("--header must have the form K=V")?;
    let checked: HeaderName = format!("bezoar-header-{name}")
        .parse()
        .map_err(|_| "--header K=V: K may contain letters, digits and -")?;
    if name.is_empty() || carried(value).is_none() {
        let words = "K must not be empty; V must be a single line without surrounding spaces";
        return Err(format!("--header K=V: {words}"));
    }
    let name = checked.as_str().trim_start_matches("bezoar-header-");
    Ok((name.to_owned(), value.to_owned()))
}

/// The value, if HTTP carries it unchanged.
fn carried(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok().filter(|_| text.trim_ascii() == text)
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;

//! `[[route]]`: a route from a queue to an endpoint.

use std::{num::NonZeroU32, time::Duration};

use bezoar::{QueueName, RetryPolicy, UncountedPolicy, blame::BreakerOptions};

use super::{EndpointTls, retry};
use crate::{
    config::{
        InvalidValue, Name, Secret, TransportConfig,
        human::{Rate, duration},
        model::broker_of,
        names::choice,
        path::Path,
        reader::{Section, SectionReader, Warn},
        tree::{Node, Value},
        values::Parsed,
    },
    endpoint::{AckMode, EndpointUrl, ExtraHeaders, SigningSecret},
};

/// A route from a queue to an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteConfig {
    /// Its name, which identifies it across reloads.
    pub name: Name,
    /// The queue.
    pub from: QueueName,
    /// The URL that messages are posted to, or that of an MLLP receiver.
    pub to: EndpointUrl,
    /// The acknowledgements that replies contain; their status decides if it is not set.
    pub ack: Option<AckFormat>,
    /// How long the endpoint may take, including its reply.
    pub timeout: Duration,
    /// The maximum number of concurrent deliveries.
    pub concurrency: u32,
    /// The maximum delivery rate.
    pub rate: Option<Rate>,
    /// How many times a failed try is repeated immediately before the attempt counts as failed.
    pub immediate_retries: u32,
    /// Whether and when failed messages are retried.
    pub retry: RetryPolicy,
    /// The longest `Retry-After` that is honoured.
    pub max_retry_after: Duration,
    /// How long a message is leased.
    pub lease: Duration,
    /// How many times a message may be delivered without an outcome before it is dead-lettered.
    pub max_deliveries: u32,
    /// When deliveries are suspended; `None` turns the breaker off.
    pub breaker: Option<BreakerOptions>,
    /// How often and how long a message may fail without using up a retry.
    pub uncounted: UncountedPolicy,
    /// How messages on a broker are dead-lettered, if it is set.
    pub dead_letter: Option<DeadLetterMode>,
    /// Whether the route starts paused.
    pub paused: bool,
    /// Whom to trust, and the client certificate.
    pub tls: EndpointTls,
    secrets: Vec<Secret>,
    headers: Vec<(String, Secret)>,
}

choice! {
    /// The acknowledgements that the replies of an endpoint contain.
    AckFormat {
        /// HL7 v2.
        Hl7 = "hl7",
    }
}

choice! {
    /// How messages on a broker are dead-lettered.
    DeadLetterMode {
        /// Published, with reason and history.
        Publish = "publish",
        /// Rejected, which carries neither.
        Reject = "reject",
    }
}

/// Returns `None` if a required key is missing or invalid.
impl RouteConfig {
    pub(in crate::config) fn read(
        reader: &mut SectionReader<'_>,
        section: &Section<'_>,
        transports: &[TransportConfig],
    ) -> Option<Self> {
        let name = reader.required(section, "name");
        let from = reader.required(section, "from");
        let broker = from.as_ref().and_then(|from| broker_of(transports, from));
        let defaults = broker.map(|(broker, _)| broker.settings.of_kind().route_defaults());
        let defaults = defaults.unwrap_or_default();
        let to: Option<EndpointUrl> = reader.required(section, "to");
        let ack = reader.optional(section, "ack");
        let timeout = reader.or_default(section, "timeout");
        let concurrency = or_of_broker(reader, section, "concurrency", defaults.concurrency);
        let rate = reader.optional(section, "rate");
        let retry = retry::read(reader, section).unwrap_or_default();
        let immediate_retries = reader.or(section, "immediate_retries", retry.immediate_retries());
        let max_retry_after = reader.or_default(section, "max_retry_after");
        let lease = or_of_broker(reader, section, "lease", defaults.lease);
        let max_deliveries =
            or_of_broker(reader, section, "max_deliveries", defaults.max_deliveries);
        let secrets = secrets(reader, section);
        let headers = headers(reader, section);
        let tls = EndpointTls::read(reader, section, to.as_ref());
        let (breaker, (first, longest)) = breaker(reader, &section.table("breaker"));
        let max_suspected = reader.or_default(section, "max_suspected");
        let max_age = reader.or_default(section, "max_outage");
        let uncounted = UncountedPolicy { first, longest, max_suspected, max_age };
        let dead_letter = reader.optional(section, "dead_letter");
        let paused = reader.or_default(section, "paused");
        if to.as_ref().is_some_and(EndpointUrl::is_mllp) {
            refuse_http_only(reader, section);
        }
        Some(Self {
            name: name?,
            from: from?,
            to: to?,
            ack,
            timeout,
            concurrency,
            rate,
            immediate_retries,
            retry,
            max_retry_after,
            lease,
            max_deliveries,
            breaker,
            uncounted,
            dead_letter,
            paused,
            tls,
            secrets,
            headers,
        })
    }

    /// How the endpoint says that it took a message.
    pub fn ack_mode(&self) -> AckMode {
        ack_mode(self.ack)
    }

    /// The secrets that sign requests.
    pub fn signing_secrets(&self) -> Vec<SigningSecret> {
        signing_secrets(&self.secrets)
    }

    /// Headers that are added to each request.
    pub fn extra_headers(&self) -> ExtraHeaders {
        extra_headers(&self.headers)
    }
}

/// The value of a key whose default its broker may set.
fn or_of_broker<T: Parsed>(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    key: &str,
    of_broker: Option<T>,
) -> T {
    match of_broker {
        Some(value) => reader.or(section, key, value),
        None => reader.or_default(section, key),
    }
}

/// Refuses the keys that have no effect on messages sent by MLLP.
pub(super) fn refuse_http_only(reader: &mut SectionReader<'_>, section: &Section<'_>) {
    for (key, lacks) in [
        ("secret", "MLLP has no headers for a signature"),
        ("headers", "MLLP has no headers"),
        ("max_retry_after", "MLLP has no Retry-After"),
    ] {
        if section.has(key) {
            let problem = format!("has no effect with mllp:// and mllps://: {lacks}");
            reader.refuse(section, key, InvalidValue::new(problem, "remove it"));
        }
    }
}

/// How an endpoint says that it took a message.
pub(super) fn ack_mode(ack: Option<AckFormat>) -> AckMode {
    match ack {
        Some(AckFormat::Hl7) => AckMode::Hl7,
        None => AckMode::Status,
    }
}

/// The secrets that sign requests, which were checked when they were read.
pub(super) fn signing_secrets(secrets: &[Secret]) -> Vec<SigningSecret> {
    secrets.iter().filter_map(|secret| secret.reveal().parse().ok()).collect()
}

/// Headers that are added to each request.
pub(super) fn extra_headers(headers: &[(String, Secret)]) -> ExtraHeaders {
    let mut extra = ExtraHeaders::default();
    for (name, value) in headers {
        extra.insert(name, value.reveal()).expect("was inserted once when it was read");
    }
    extra
}

/// The first and the longest pause.
type Pauses = (Duration, Duration);

/// The breaker's options, and the pauses, which also apply to failures that use up no retry.
fn breaker(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
) -> (Option<BreakerOptions>, Pauses) {
    let failures = reader.or_default(section, "failures");
    let first_pause: Duration = reader.or_default(section, "pause");
    let longest_pause: Duration = reader.or_default(section, "max_pause");
    if first_pause > longest_pause {
        let (first, longest) = (duration::format(first_pause), duration::format(longest_pause));
        let problem = format!("is {first}, more than max_pause ({longest})");
        reader.refuse(
            section,
            "pause",
            InvalidValue::new(problem, "raise max_pause or lower pause"),
        );
    }
    let breaker = NonZeroU32::new(failures).map(|failures| BreakerOptions {
        failures,
        first_pause,
        longest_pause,
    });
    (breaker, (first_pause, longest_pause))
}

/// The maximum number of signing secrets.
const SECRETS_LIMIT: usize = 8;

pub(super) fn secrets(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Vec<Secret> {
    let Some(node) = section.node("secret") else { return Vec::new() };
    let path = section.path.key("secret");
    match &node.value {
        Value::List(list) if list.len() > SECRETS_LIMIT => {
            let problem = format!("has {} secrets", list.len());
            let invalid = InvalidValue::new(problem, format!("the maximum is {SECRETS_LIMIT}"));
            reader.refuse(section, "secret", invalid);
            Vec::new()
        }
        Value::List(list) => {
            let each = list.iter().enumerate();
            each.filter_map(|(index, node)| signing(reader, section, &path.index(index), node))
                .collect()
        }
        _ => signing(reader, section, &path, node).into_iter().collect(),
    }
}

/// The shortest key of Standard Webhooks, 24 bytes, in base64 characters.
const KEY_LEAST_CHARS: usize = 32;

fn signing(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
    path: &Path,
    node: &Node,
) -> Option<Secret> {
    let secret = reader.resolved(path, node, Warn::Always)?;
    let remedy = "use whsec_ followed by 24 to 64 random bytes in base64";
    let problem = match secret.reveal().strip_prefix("whsec_") {
        None => Some("does not start with whsec_".to_owned()),
        Some(key) if key.len() < KEY_LEAST_CHARS => Some("is shorter than 24 bytes".to_owned()),
        Some(_) => secret.reveal().parse::<SigningSecret>().err().map(|invalid| invalid.problem),
    };
    let Some(problem) = problem else { return Some(secret) };
    reader.refuse(section, "secret", InvalidValue::new(problem, remedy));
    None
}

/// The maximum number of additional headers.
const HEADERS_LIMIT: usize = 64;

pub(super) fn headers(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
) -> Vec<(String, Secret)> {
    let within = section.table("headers");
    let Some(table) = within.content() else { return Vec::new() };
    if table.len() > HEADERS_LIMIT {
        let problem = format!("has {} headers", table.len());
        let invalid = InvalidValue::new(problem, format!("the maximum is {HEADERS_LIMIT}"));
        reader.refuse(section, "headers", invalid);
        return Vec::new();
    }
    let mut headers: Vec<(String, Secret)> = Vec::new();
    for (name, node) in table {
        let warn = if is_sensitive(name) { Warn::Always } else { Warn::Never };
        let Some(value) = reader.resolved(&within.path.key(name), node, warn) else { continue };
        match header(name, &value, &headers) {
            Ok(()) => headers.push((name.to_ascii_lowercase(), value)),
            Err(invalid) => reader.refuse(&within, name, invalid),
        }
    }
    headers
}

fn header(name: &str, value: &Secret, earlier: &[(String, Secret)]) -> Result<(), InvalidValue> {
    if earlier.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
        return Err(InvalidValue::new("is set twice, in different case", "remove one of them"));
    }
    ExtraHeaders::default()
        .insert(name, value.reveal())
        .map_err(|invalid| InvalidValue::new(invalid.problem, "use another name or value"))
}

/// Whether the value of this header is likely to be a secret.
fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "token", "key", "secret", "cookie", "password", "session", "credential"]
        .iter()
        .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_likely_secret_are_recognized() {
        for (name, expected) in
            [("Authorization", true), ("X-API-Key", true), ("Cookie", true), ("X-Tenant", false)]
        {
            assert_eq!(is_sensitive(name), expected, "{name}");
        }
    }

    #[test]
    fn headers_of_the_gateway_are_rejected() {
        let value = Secret::new("CANARY".to_owned()).unwrap();
        assert!(header("x-tenant", &value, &[]).is_ok());
        for name in ["content-length", "Bezoar-Id", "a b", ""] {
            let invalid = header(name, &value, &[]).unwrap_err();
            assert!(!invalid.to_string().contains("CANARY"), "{invalid}");
        }
        let earlier = [("x-tenant".to_owned(), value.clone())];
        assert!(header("X-Tenant", &value, &earlier).unwrap_err().problem.contains("twice"));
    }
}

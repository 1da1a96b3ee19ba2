//! Dead letters, and what people do with one of them.

use std::collections::BTreeMap;

use bezoar::{
    UncountedSummary,
    catalogue::{self, Count, DeadLetterRecord},
    rabbitmq,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{FailureKind, Hidden, names::named, reading};

/// A page of dead letters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeadLetterPage {
    /// The dead letters of this page.
    pub items: Vec<DeadLetterSummary>,
    /// The cursor of the next page, to pass as `after`; null if this is the last page.
    pub next: Option<String>,
    /// How many match on all pages together.
    pub matching: MatchCount,
}

/// A number, exact or a lower bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MatchCount {
    /// The number, or a lower bound.
    pub count: u64,
    /// Whether the number is exact.
    pub exact: bool,
}

/// A dead letter without anything sensitive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeadLetterSummary {
    /// Its id.
    #[schema(example = "dl_g4jmah4z")]
    pub id: String,
    /// The queue in which it was dead-lettered, and to which a replay sends it.
    pub queue: String,
    /// The message's own id, which may repeat.
    pub message_id: String,
    /// The message's type.
    pub r#type: String,
    /// The message's correlation id.
    pub correlation_id: Option<String>,
    /// Why it was dead-lettered, in words.
    pub reason: String,
    /// The last failure.
    pub error: LastError,
    /// The cause that groups it with others.
    #[schema(example = "v1:0123456789abcdef")]
    pub cause: String,
    /// How many attempts failed since it was last sent or replayed.
    pub attempts: u64,
    /// How often it was replayed.
    pub replays: u64,
    /// The size of its body.
    pub body_bytes: u64,
    /// When the message was created.
    pub created_at: Timestamp,
    /// When it was dead-lettered.
    pub dead_lettered_at: Timestamp,
    /// When it arrived in this store.
    pub arrived_at: Timestamp,
    /// Whether something is being done about it.
    pub state: DeadLetterState,
    /// The operation that holds it.
    pub operation: Option<String>,
    /// The dead letter that it is an edited version of.
    pub edited_from: Option<String>,
    /// The dead letter that it may be a copy of.
    pub possible_copy_of: Option<String>,
}

/// The last failure of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct LastError {
    /// Its kind.
    pub kind: FailureKind,
    /// Its code.
    #[schema(example = "http.503")]
    pub code: String,
}

named! {
    /// Whether something is being done about a dead letter.
    DeadLetterState {
        /// Nobody has acted on it yet.
        Open = "open",
        /// It is part of an operation that has not ended.
        Held = "held",
        /// There is an edited version of it.
        Edited = "edited",
        /// It is an edited version that somebody else must approve.
        Unapproved = "unapproved",
    }
}

/// Everything about a dead letter except body, header values and error texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeadLetterDetails {
    /// What lists show.
    #[serde(flatten)]
    pub summary: DeadLetterSummary,
    /// Why it was dead-lettered, as a code.
    pub reason_code: String,
    /// The content type of its body.
    pub content_type: Option<String>,
    /// The id of the message that caused it.
    pub causation_id: Option<String>,
    /// How often it was handed to a worker.
    pub acquired: u64,
    /// How often it was handed back without an attempt.
    pub released: u64,
    /// Failures that did not use up a retry.
    pub uncounted: Option<UncountedFailures>,
    /// When it last failed since it was sent or replayed.
    pub last_failure_at: Option<Timestamp>,
    /// The failed tries, oldest first.
    pub history: Vec<FailedTry>,
    /// Where it was published to on its broker.
    pub origin: Option<Origin>,
    /// Names and sizes of its headers.
    pub headers: Vec<HeaderSize>,
    /// Its edited versions and the one it was edited from, the original first.
    pub lineage: Vec<String>,
    /// The dead letters that it was before: each was replayed and failed again.
    pub earlier: Vec<String>,
    /// The replays that included it, latest last.
    pub operations: Vec<String>,
}

/// Failures that did not use up a retry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UncountedFailures {
    /// How many there were.
    pub count: u64,
    /// How many of them the message is suspected of.
    pub suspected: u64,
    /// When the first one was.
    pub first_at: Timestamp,
    /// When the last one was.
    pub last_at: Timestamp,
    /// The code of the last one.
    pub code: String,
}

/// One failed try.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct FailedTry {
    /// How often the message had been replayed before.
    pub generation: u64,
    /// The number of the attempt since then, from 1.
    pub attempt: u64,
    /// The number of the try within the attempt, from 1.
    pub r#try: u64,
    /// When it started.
    pub started_at: Timestamp,
    /// When it failed.
    pub failed_at: Timestamp,
    /// How long it took.
    pub duration_ms: u64,
    /// The kind of the failure.
    pub kind: FailureKind,
    /// The code of the failure.
    pub code: String,
    /// The size of the error's text.
    pub detail_bytes: u64,
}

/// Where a message of a broker was published to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Origin {
    /// The exchange.
    pub exchange: String,
    /// The routing key.
    pub routing_key: String,
    /// The virtual host.
    pub vhost: String,
}

/// The name and size of a header.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HeaderSize {
    /// Its name.
    pub name: String,
    /// The size of its value.
    pub bytes: u64,
}

/// A reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// The reason, recorded in the audit log.
    pub reason: String,
}

/// Asks for sensitive content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevealRequest {
    /// The reason, recorded in the audit log.
    pub reason: String,
    /// What to reveal; the body if absent.
    #[serde(default = "only_the_body")]
    #[schema(min_items = 1)]
    pub what: Vec<RevealPart>,
}

/// A part of a message that is sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RevealPart {
    /// The body.
    Body,
    /// The values of its headers.
    Headers,
    /// The texts of its errors.
    Details,
}

fn only_the_body() -> Vec<RevealPart> {
    vec![RevealPart::Body]
}

/// The sensitive content that was asked for; other members are absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Revealed {
    /// The id of the dead letter.
    pub id: String,
    /// The content type of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The body, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub body_base64: Option<Hidden<String>>,
    /// The values of the headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<Hidden<BTreeMap<String, String>>>,
    /// The text of each failed try, in the order of `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub details: Option<Hidden<Vec<String>>>,
}

/// Makes an edited version of a dead letter.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditRequest {
    /// The reason, recorded in the audit log.
    pub reason: String,
    /// A new body, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        value_type = Option<String>,
        pattern = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
    )]
    pub body_base64: Option<Hidden<String>>,
    /// A JSON patch (RFC 6902) for a body that is JSON: at most 256 KiB and 1,000 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub patch: Option<Hidden<Box<RawValue>>>,
    /// New values of headers; null removes a header.
    #[serde(
        default,
        deserialize_with = "reading::headers",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub headers: BTreeMap<String, Option<Hidden<String>>>,
}

impl From<Count> for MatchCount {
    fn from(Count { count, exact }: Count) -> Self {
        Self { count, exact }
    }
}

impl From<&catalogue::DeadLetterSummary> for DeadLetterSummary {
    fn from(entry: &catalogue::DeadLetterSummary) -> Self {
        Self {
            id: entry.id.to_string(),
            queue: entry.queue.to_string(),
            message_id: entry.message_id.to_string(),
            r#type: entry.message_type.to_string(),
            correlation_id: entry.correlation_id.as_ref().map(ToString::to_string),
            reason: entry.reason.clone(),
            error: LastError { kind: entry.kind.into(), code: entry.code.to_string() },
            cause: entry.cause.to_string(),
            attempts: entry.attempts.into(),
            replays: entry.replayed.into(),
            body_bytes: entry.body_bytes,
            created_at: entry.time,
            dead_lettered_at: entry.died_at,
            arrived_at: entry.arrived_at,
            state: entry.state.into(),
            operation: match entry.state {
                catalogue::DeadLetterState::Held(operation) => Some(operation.to_string()),
                _ => None,
            },
            edited_from: entry.edited_from.map(|id| id.to_string()),
            possible_copy_of: entry.possible_copy_of.map(|id| id.to_string()),
        }
    }
}

impl From<catalogue::DeadLetterState> for DeadLetterState {
    fn from(state: catalogue::DeadLetterState) -> Self {
        match state {
            catalogue::DeadLetterState::Open => Self::Open,
            catalogue::DeadLetterState::Held(_) => Self::Held,
            catalogue::DeadLetterState::Edited => Self::Edited,
            catalogue::DeadLetterState::Unapproved => Self::Unapproved,
            _ => Self::Unknown,
        }
    }
}

/// How the headers begin that the transport on Azure Storage Queue adds to dead letters.
const OF_AZURE: &str = "bezoar-azure-";

impl From<&DeadLetterRecord> for DeadLetterDetails {
    fn from(record: &DeadLetterRecord) -> Self {
        fn texts(ids: &[impl ToString]) -> Vec<String> {
            ids.iter().map(ToString::to_string).collect()
        }
        let (message, ledger) = (&record.message, &record.message.ledger);
        let of_sender = |name: &String| {
            !rabbitmq::Origin::is_header(message, name) && !name.starts_with(OF_AZURE)
        };
        let headers = message.headers.iter().filter(|(name, _)| of_sender(name));
        Self {
            summary: (&record.entry).into(),
            reason_code: record.reason.code().to_string(),
            content_type: message.content_type.as_ref().map(ToString::to_string),
            causation_id: message.causation_id.as_ref().map(ToString::to_string),
            acquired: ledger.acquired.into(),
            released: ledger.released.into(),
            uncounted: ledger.uncounted.as_ref().map(Into::into),
            last_failure_at: ledger.last_failure_at(),
            history: ledger.history().iter().map(Into::into).collect(),
            origin: rabbitmq::Origin::of(message).map(Into::into),
            headers: headers
                .map(|(name, value)| HeaderSize { name: name.clone(), bytes: value.len() as u64 })
                .collect(),
            lineage: texts(&record.versions),
            earlier: texts(&record.earlier),
            operations: texts(&record.operations),
        }
    }
}

impl From<&UncountedSummary> for UncountedFailures {
    fn from(summary: &UncountedSummary) -> Self {
        Self {
            count: summary.count.into(),
            suspected: summary.suspected.into(),
            first_at: summary.first,
            last_at: summary.last,
            code: summary.code.to_string(),
        }
    }
}

impl From<&bezoar::FailedTry> for FailedTry {
    fn from(failed: &bezoar::FailedTry) -> Self {
        Self {
            generation: failed.generation.into(),
            attempt: failed.attempt.into(),
            r#try: failed.try_number.into(),
            started_at: failed.started_at,
            failed_at: failed.failed_at(),
            duration_ms: failed.duration.as_millis() as u64,
            kind: failed.kind.into(),
            code: failed.code.to_string(),
            detail_bytes: failed.detail.len() as u64,
        }
    }
}

impl From<rabbitmq::Origin> for Origin {
    fn from(origin: rabbitmq::Origin) -> Self {
        Self { exchange: origin.exchange, routing_key: origin.routing_key, vhost: origin.vhost }
    }
}

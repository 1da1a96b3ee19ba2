//! The single table of keys. Unknown keys, types, defaults, `config show` and the schema are all derived from it.
//! The keys of transports are in it too; each kind of transport lists its own.

use std::{sync::LazyLock, time::Duration};

use bezoar_core::MAX_DELAY;

use super::{
    AckFormat, DeadLetterMode, Kind, LogFormat, LogLevel, MetricsAccess, Role, Watch, path::Path,
    sections::retry,
};
use crate::broker::{KINDS, POSTGRES_STORE_KEYS, TransportKind};

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `route[].retry.first`: `[]` stands for any element of a list.
    pub path: &'static str,
    /// The kind of transport or store that has this key; `None` if there is only one.
    pub transport: Option<&'static str>,
    /// The kind of value it accepts.
    pub kind: Kind,
    /// Its default, written as in an environment variable.
    pub default: Option<&'static str>,
    /// Whether it must be set.
    pub required: bool,
    /// When a change takes effect.
    pub applies: Applies,
    /// What it is for, in one sentence.
    pub doc: &'static str,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// On reload.
    Live,
    /// After a restart.
    Restart,
}

impl Key {
    pub(crate) const fn new(path: &'static str, kind: Kind, doc: &'static str) -> Self {
        let (transport, default, applies) = (None, None, Applies::Live);
        Self { path, transport, kind, default, required: false, applies, doc }
    }

    pub(crate) const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(crate) const fn restart(mut self) -> Self {
        self.applies = Applies::Restart;
        self
    }

    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether a transport of this kind has it. Everything outside of transports has no kind, and neither has a transport
    /// whose URL is missing or wrong, which may have any key.
    fn is_in(&self, transport: Option<&str>) -> bool {
        self.transport.is_none() || transport.is_none() || self.transport == transport
    }

    /// The path of its table; empty at the top.
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}

/// All keys, parents before their children.
pub fn keys() -> &'static [Key] {
    static ALL: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let with_transports = |key: &Key| match key.path {
            TRANSPORTS => [*key].into_iter().chain(of_transports()).collect(),
            LAST_OF_SQLITE => [*key].into_iter().chain(of_database()).collect(),
            _ => vec![*key],
        };
        KEYS.iter().flat_map(with_transports).collect()
    });
    &ALL
}

/// The table of transports.
pub(super) const TRANSPORTS: &str = "transports";

/// The keys of `[store]` that only a database has follow after it.
const LAST_OF_SQLITE: &str = "store.max_log";

fn of_database() -> impl Iterator<Item = Key> {
    let of_kind = |key: &Key| Key { transport: Some("PostgreSQL"), ..*key };
    POSTGRES_STORE_KEYS.iter().map(of_kind)
}

fn of_transports() -> impl Iterator<Item = Key> {
    let of_kind = |kind: &'static TransportKind| {
        kind.keys.iter().map(|key| Key { transport: Some(kind.name), ..*key })
    };
    KINDS.iter().flat_map(of_kind)
}

/// The key at this path.
pub(super) fn find(path: &Path) -> Option<&'static Key> {
    let pattern = path.pattern();
    keys().iter().find(|key| key.path == pattern && key.is_in(path.transport()))
}

/// The keys of the table at this path.
pub(super) fn within(path: &Path) -> impl Iterator<Item = &'static Key> {
    children(path.pattern(), path.transport())
}

/// The keys of the tables with this pattern, `route[]`, in a transport of this kind.
pub(super) fn children(
    pattern: String,
    transport: Option<&'static str>,
) -> impl Iterator<Item = &'static Key> {
    keys().iter().filter(move |key| key.parent() == pattern && key.is_in(transport))
}

/// Whether this is the path of a table.
pub(super) fn is_table(name: &str) -> bool {
    find(&Path::parse(name))
        .is_some_and(|key| matches!(key.kind, Kind::Table | Kind::Tables | Kind::Named))
}

/// Whether keys with this name may hold secrets; `None` if there is no such key.
pub(super) fn holds_secrets(name: &str) -> Option<bool> {
    let named = || keys().iter().filter(|key| key.name() == name);
    named().next()?;
    Some(named().any(|key| key.kind.holds_secrets()))
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const TIB: u64 = 1024 * 1024 * MIB;

#[rustfmt::skip]
static KEYS: &[Key] = &[
    Key::new("server", Kind::Table, "How the gateway listens."),
    Key::new("server.listen", Kind::Address, "Address and port of the HTTP API. Addresses other than loopback require a [[token]].").or("127.0.0.1:8420").restart(),
    Key::new("server.max_body", Kind::Size(KIB, 512 * MIB), "Maximum size of a message body.").or("16MiB").restart(),
    Key::new("server.body_memory", Kind::Size(MIB, TIB), "Memory for the bodies of all requests together; further ones wait 2s and then get 503 with Retry-After. One body of server.max_body always fits.").or("64MiB").restart(),
    Key::new("server.max_in_flight", Kind::Integer(1, 65_536), "Maximum number of concurrent requests that send messages; further ones get 503 with Retry-After.").or("512").restart(),
    Key::new("server.drain", Kind::Duration(Duration::ZERO, HOUR), "How long deliveries in progress may take to finish when the gateway stops.").or("30s").restart(),

    Key::new("store", Kind::Table, "Where messages are stored."),
    Key::new("store.url", Kind::StoreUrl, "The embedded store, sqlite:PATH, or a PostgreSQL database that several gateways can share, postgres://USER@HOST:PORT/DATABASE. The URL of a database may be env:NAME or file:PATH.").or("sqlite:bezoar-data/bezoar.db").restart(),
    Key::new("store.max_size", Kind::Size(MIB, 256 * TIB), "Maximum size of an SQLite store, beyond which new messages are refused; limited only by the disk if not set.").restart(),
    Key::new(LAST_OF_SQLITE, Kind::Size(8 * MIB, 256 * TIB), "How large the write-ahead log may grow while another program's long read transaction keeps it from being checkpointed, before new messages are refused.").or("1GiB").restart(),

    Key::new("transports", Kind::Named, "Brokers. Their queues are written NAME/QUEUE."),

    Key::new("queue", Kind::Tables, "Queues without a route, or with settings of their own."),
    Key::new("queue[].name", Kind::Queue, "Name of the queue.").required(),
    Key::new("queue[].watch", Kind::Choice(Watch::NAMES), "Whether a broker's dead letters are taken into the catalogue, or stay on the broker and are only counted.").or("take"),
    Key::new("queue[].dead_letter_exchange", Kind::BrokerName, "Dead-letter exchange of a broker's queue; empty for the default exchange; bezoar.dead if not set.").restart(),
    Key::new("queue[].dead_letter_key", Kind::BrokerName, "Routing key of its dead letters; the name of the queue if not set.").restart(),
    Key::new("queue[].dead_letter_queue", Kind::BrokerName, "Its dead-letter queue; the name of the queue with .dead, or on Azure with -poison, if not set.").restart(),

    Key::new("route", Kind::Tables, "Routes from a queue to an endpoint."),
    Key::new("route[].name", Kind::Name, "Name of the route; identifies it across reloads.").required(),
    Key::new("route[].from", Kind::Queue, "Queue to consume: a plain name is a queue of the embedded store, NAME/QUEUE a queue of a broker.").required(),
    Key::new("route[].to", Kind::Destination, "URL that messages are posted to, or mllp://HOST:PORT (mllps with TLS) of an HL7 receiver.").required(),
    Key::new("route[].ack", Kind::Choice(AckFormat::NAMES), "How the endpoint says that it took a message: hl7 reads its 2xx replies as HL7 v2 acknowledgements, as MLLP always does; by the status if not set."),
    Key::new("route[].timeout", Kind::Duration(Duration::from_millis(10), HOUR), "How long the endpoint may take, including its reply.").or("30s"),
    Key::new("route[].concurrency", Kind::Integer(1, 10_000), "Maximum number of concurrent deliveries. On Azure Storage Queue, fetch_loops × batch_concurrency of the transport if not set.").or("16"),
    Key::new("route[].rate", Kind::Rate, "Maximum delivery rate: 100/s, 5/m; unlimited if not set."),
    Key::new("route[].immediate_retries", Kind::Integer(0, 10), "How many times a failed try is repeated immediately before the attempt counts as failed; 3 with the preset broker.").or("0"),
    Key::new("route[].retry", Kind::Retry, "When failed messages are retried: the name of a preset, or a table."),
    Key::new("route[].retry.preset", Kind::Choice(retry::PRESETS), "Preset that the other keys change; their defaults are then those of the preset.").or("jobs"),
    Key::new("route[].retry.max_retries", Kind::Integer(0, 1_000), "Maximum number of retries after the first attempt.").or("3"),
    Key::new("route[].retry.first", Kind::Duration(MS, MAX_DELAY), "Delay before the first retry.").or("1s"),
    Key::new("route[].retry.multiplier", Kind::Number(1.0, 1_000.0), "Factor by which the delay grows with each retry.").or("2"),
    Key::new("route[].retry.max", Kind::Duration(MS, MAX_DELAY), "Maximum delay, before jitter.").or("30s"),
    Key::new("route[].retry.jitter", Kind::Number(0.0, 1.0), "Fraction by which a delay is varied at random.").or("0.1"),
    Key::new("route[].max_retry_after", Kind::Duration(Duration::ZERO, MAX_DELAY), "Longest Retry-After of an endpoint that is honoured.").or("1h"),
    Key::new("route[].lease", Kind::Duration(SECOND, Duration::from_secs(12 * 60 * 60)), "How long a message is leased; the lease is renewed during delivery. On Azure Storage Queue, visibility_timeout of the transport if not set.").or("30s"),
    Key::new("route[].max_deliveries", Kind::Integer(1, 100), "How many times a message may be delivered without an outcome before it is dead-lettered. On Azure Storage Queue, max_dequeue_count of the transport if not set.").or("5"),
    Key::new("route[].max_suspected", Kind::Integer(1, 1_000), "How many times a message may fail without a clear answer while others succeed before it is dead-lettered.").or("10"),
    Key::new("route[].max_outage", Kind::Duration(SECOND, MAX_DELAY), "How long a message may fail through no fault of its own before it is dead-lettered.").or("3d"),
    Key::new("route[].secret", Kind::SigningSecrets, "Signs requests as specified by Standard Webhooks; a list while one secret replaces another; unsigned if not set."),
    Key::new("route[].headers", Kind::Headers, "Additional headers of each request. Values may be env:NAME or file:PATH."),
    Key::new("route[].tls_ca", Kind::Secret, "CA certificates to trust instead of the system's, in PEM."),
    Key::new("route[].tls_certificate", Kind::Secret, "Client certificate with its chain, in PEM."),
    Key::new("route[].tls_key", Kind::Secret, "Private key of the client certificate, in PEM."),
    Key::new("route[].breaker", Kind::Table, "When deliveries to a failing endpoint are suspended."),
    Key::new("route[].breaker.failures", Kind::Integer(0, 1_000), "How many different messages must fail without a success in between to open the breaker; 0 turns it off.").or("5"),
    Key::new("route[].breaker.pause", Kind::Duration(Duration::from_millis(10), DAY), "How long the breaker stays open before it probes the endpoint; also the first delay after a failure that uses up no retry.").or("1s"),
    Key::new("route[].breaker.max_pause", Kind::Duration(Duration::from_millis(10), DAY), "Maximum of both delays, which double with each failure.").or("15s"),
    Key::new("route[].dead_letter", Kind::Choice(DeadLetterMode::NAMES), "How messages on a broker are dead-lettered: published with reason and history, or rejected, which carries neither; published if not set."),
    Key::new("route[].paused", Kind::Boolean, "Whether the route starts paused.").or("false"),

    Key::new("poison_retry", Kind::Tables, "Poison queues whose messages are delivered again, with growing delays, until they succeed or become dead letters."),
    Key::new("poison_retry[].queue", Kind::Queue, "Poison queue to work on, NAME/QUEUE, on Azure Storage Queue. It is created if it does not exist.").required().restart(),
    Key::new("poison_retry[].to", Kind::Destination, "URL that messages are posted to, or mllp://HOST:PORT (mllps with TLS) of an HL7 receiver.").required(),
    Key::new("poison_retry[].ack", Kind::Choice(AckFormat::NAMES), "How the endpoint says that it took a message: hl7 reads its 2xx replies as HL7 v2 acknowledgements, as MLLP always does; by the status if not set."),
    Key::new("poison_retry[].every", Kind::Duration(SECOND, MAX_DELAY), "Time from one run to the next.").or("5m"),
    Key::new("poison_retry[].batch", Kind::Integer(1, 32), "How many messages are taken at a time and delivered concurrently.").or("10"),
    Key::new("poison_retry[].batches", Kind::Integer(1, 10_000), "How many batches a run takes at most, while the queue has enough messages.").or("1"),
    Key::new("poison_retry[].max_attempts", Kind::Integer(0, 1_000), "How often a message is delivered before it becomes a dead letter.").or("3"),
    Key::new("poison_retry[].base", Kind::Integer(1, 1_000), "Base of the delays: base^(c+1) minutes, where c is the raised retry count; 4, 8 and 16 minutes for 2.").or("2"),
    Key::new("poison_retry[].jitter", Kind::Boolean, "Whether delays are lengthened at random.").or("true"),
    Key::new("poison_retry[].jitter_most", Kind::Number(0.0, 1.0), "Largest fraction by which a delay is lengthened. The largest delay with it must not exceed 7 days.").or("0.3"),
    Key::new("poison_retry[].invisibility", Kind::Duration(SECOND, WEEK), "How long a message that was taken is invisible to others; longer than `timeout`.").or("5m"),
    Key::new("poison_retry[].timeout", Kind::Duration(Duration::from_millis(10), HOUR), "How long the endpoint may take, including its reply.").or("30s"),
    Key::new("poison_retry[].dead_letter", Kind::Queue, "Queue for messages that are given up, NAME/QUEUE on the same transport, from which they are taken into the catalogue; `catalogue` uses the name of the poison queue with -dead.").or("catalogue").restart(),
    Key::new("poison_retry[].retry_count_field", Kind::Name, "Name of the retry count in JSON messages of other programs.").or("RetryCount"),
    Key::new("poison_retry[].correlation_id_field", Kind::Name, "Name of the correlation id in JSON messages of other programs.").or("CorrelationId"),
    Key::new("poison_retry[].body_field", Kind::Name, "Name of the text to deliver in JSON messages of other programs; the whole JSON if not set."),
    Key::new("poison_retry[].secret", Kind::SigningSecrets, "Signs requests as specified by Standard Webhooks; a list while one secret replaces another; unsigned if not set."),
    Key::new("poison_retry[].headers", Kind::Headers, "Additional headers of each request. Values may be env:NAME or file:PATH."),
    Key::new("poison_retry[].tls_ca", Kind::Secret, "CA certificates to trust instead of the system's, in PEM."),
    Key::new("poison_retry[].tls_certificate", Kind::Secret, "Client certificate with its chain, in PEM."),
    Key::new("poison_retry[].tls_key", Kind::Secret, "Private key of the client certificate, in PEM."),

    Key::new("network", Kind::Table, "Which addresses endpoints may have."),
    Key::new("network.allow", Kind::Networks, "Always allowed, private or not, unless denied.").or(""),
    Key::new("network.deny", Kind::Networks, "Never allowed.").or(""),
    Key::new("network.private", Kind::Automatic, "Whether private addresses are allowed; auto allows them while the gateway listens on loopback.").or("auto"),
    Key::new("network.only_listed", Kind::Boolean, "Whether only addresses in `allow` are allowed.").or("false"),

    Key::new("token", Kind::Tables, "API tokens."),
    Key::new("token[].name", Kind::Name, "Name of the token, which the audit log records.").required(),
    Key::new("token[].role", Kind::Choice(Role::NAMES), "What the token may do.").required(),
    Key::new("token[].secret", Kind::Secret, "The token itself, at least 16 characters.").required(),
    Key::new("token[].queues", Kind::Queues, "Queues the token is limited to; all if not set."),

    Key::new("dead_letters", Kind::Table, "What may be done with dead letters, and how long they are kept."),
    Key::new("dead_letters.keep", Kind::Duration(HOUR, Duration::from_secs(3_650 * 24 * 60 * 60)), "How long dead letters are kept; forever if not set.").restart(),
    Key::new("dead_letters.warn", Kind::Duration(HOUR, Duration::from_secs(365 * 24 * 60 * 60)), "How long before dead letters expire the log warns of it.").or("7d").restart(),
    Key::new("dead_letters.editable", Kind::Queues, "Queues whose dead letters may be edited; none if not set."),
    Key::new("dead_letters.approval", Kind::Boolean, "Whether a second person must approve an edit before it can be replayed.").or("false"),

    Key::new("log", Kind::Table, "What is logged, and in which format."),
    Key::new("log.format", Kind::Choice(LogFormat::NAMES), "Text for people, or JSON for programs.").or("text").restart(),
    Key::new("log.level", Kind::Choice(LogLevel::NAMES), "Minimum level that is logged.").or("info"),
    Key::new("log.filter", Kind::Filter, "Levels by module, instead of `level`: info,bezoar=debug."),

    Key::new("telemetry", Kind::Table, "What is measured, and where it is sent."),
    Key::new("telemetry.otlp_endpoint", Kind::Endpoint, "Collector for traces and metrics, by OTLP over HTTP; none if not set.").restart(),
    Key::new("telemetry.service_name", Kind::Name, "Name of this service in traces and metrics.").or("bezoar").restart(),
    Key::new("telemetry.traces", Kind::Boolean, "Whether traces are recorded.").or("true").restart(),
    Key::new("telemetry.metrics", Kind::Boolean, "Whether metrics are recorded, including /metrics.").or("true").restart(),
    Key::new("telemetry.metrics_access", Kind::Choice(MetricsAccess::NAMES), "Who may read /metrics: holders of a viewer token for all queues, or everybody who can connect.").or("token").restart(),
    Key::new("telemetry.correlation", Kind::Boolean, "Whether correlation ids are logged, and traces continue from callers to endpoints.").or("true").restart(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_parent_before_it_and_a_line_of_documentation() {
        for (position, key) in keys().iter().enumerate() {
            let parent = key.parent().trim_end_matches("[]").trim_end_matches(".*");
            let before = &keys()[..position];
            assert!(
                parent.is_empty() || before.iter().any(|key| key.path == parent),
                "{}",
                key.path
            );
            let same = |other: &Key| (other.path, other.transport) == (key.path, key.transport);
            assert!(!before.iter().any(same), "{} twice", key.path);
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert!(!(key.required && key.default.is_some()), "{}", key.path);
        }
    }

    #[test]
    fn names_that_may_hold_secrets_are_known() {
        for (name, expected) in [
            ("secret", Some(true)),
            ("headers", Some(true)),
            ("to", Some(true)),
            ("url", Some(true)),
            ("timeout", Some(false)),
            ("banana", None),
        ] {
            assert_eq!(holds_secrets(name), expected, "{name}");
        }
    }
}

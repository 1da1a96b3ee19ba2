//! The one table of keys. Unknown keys, types, defaults, `config show` and the schema all follow from it.

use std::time::Duration;

use bezoar_core::MAX_DELAY;

use super::{DeadLetterMode, Kind, LogFormat, LogLevel, QueueKind, Role, Watch, sections::retry};

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `route[].retry.first`: `[]` stands for any element of a list.
    pub path: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// What holds if it is not set, as one would write it in a variable.
    pub default: Option<&'static str>,
    /// Whether it must be set.
    pub required: bool,
    /// When a change takes effect.
    pub applies: Applies,
    /// What it is for.
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
    const fn new(path: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { path, kind, default: None, required: false, applies: Applies::Live, doc }
    }

    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    const fn restart(mut self) -> Self {
        self.applies = Applies::Restart;
        self
    }

    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The path of what it is in; empty for the top.
    pub fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}

/// Every key there is, parents before their children.
pub fn keys() -> &'static [Key] {
    KEYS
}

/// The key of this path, with `[]` for elements of a list.
pub(super) fn find(pattern: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == pattern)
}

/// The keys of a table.
pub(super) fn within(pattern: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.parent() == pattern)
}

/// Whether this is the name of a table.
pub(super) fn is_table(name: &str) -> bool {
    find(name).is_some_and(|key| matches!(key.kind, Kind::Table | Kind::Tables | Kind::Named))
}

/// Whether values of keys with this name hold secrets; `None` if there is no such key.
pub(super) fn holds_secrets(name: &str) -> Option<bool> {
    let named = || KEYS.iter().filter(|key| key.name() == name);
    named().next()?;
    Some(named().any(|key| key.kind.holds_secrets()))
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const TIB: u64 = 1024 * 1024 * MIB;

#[rustfmt::skip]
static KEYS: &[Key] = &[
    Key::new("server", Kind::Table, "How the gateway is reached."),
    Key::new("server.listen", Kind::Address, "Address and port of the HTTP API. Beyond loopback it needs a [[token]].").or("127.0.0.1:8420").restart(),
    Key::new("server.max_body", Kind::Size(KIB, 512 * MIB), "The largest body of a message that is accepted.").or("16MiB").restart(),
    Key::new("server.max_in_flight", Kind::Integer(1, 65_536), "How many requests are accepted at a time; more are told to come again.").or("512").restart(),
    Key::new("server.drain", Kind::Duration(Duration::ZERO, HOUR), "How long deliveries under way may take to finish when the gateway stops.").or("30s").restart(),

    Key::new("store", Kind::Table, "Where messages are kept."),
    Key::new("store.url", Kind::StoreUrl, "sqlite:PATH, the embedded store.").or("sqlite:bezoar-data/bezoar.db").restart(),
    Key::new("store.max_size", Kind::Size(MIB, 256 * TIB), "How large the store may grow before new messages are refused; as large as the disk if not set.").restart(),

    Key::new("transports", Kind::Named, "Brokers. Their queues are written NAME/QUEUE."),
    Key::new("transports.*.url", Kind::BrokerUrl, "Where it is: amqp://USER@HOST:PORT/VHOST, or amqps. Several hosts are separated by commas and tried in turn.").required().restart(),
    Key::new("transports.*.user", Kind::Name, "Who signs in, if the URL does not say.").restart(),
    Key::new("transports.*.password", Kind::Secret, "The password, if the URL has none.").restart(),
    Key::new("transports.*.management_url", Kind::ManagementUrl, "The broker's HTTP API, for what AMQP cannot tell; the same user and password if it has none.").restart(),
    Key::new("transports.*.queue_type", Kind::Choice(QueueKind::NAMES), "Which queues are made.").or("quorum").restart(),
    Key::new("transports.*.provision", Kind::Boolean, "Whether queues, exchanges and bindings that are missing are made; otherwise they are only checked.").or("true").restart(),
    Key::new("transports.*.tls_ca", Kind::File, "Certificates of authorities to trust, in PEM; those of the system if not set.").restart(),
    Key::new("transports.*.tls_certificate", Kind::File, "Our own certificate, in PEM.").restart(),
    Key::new("transports.*.tls_key", Kind::File, "The key of our certificate, in PEM.").restart(),

    Key::new("queue", Kind::Tables, "Queues that exist without a route, or are more than a route says."),
    Key::new("queue[].name", Kind::Queue, "Its name.").required(),
    Key::new("queue[].watch", Kind::Choice(Watch::NAMES), "Whether a broker's dead letters are taken into the catalogue, or stay there and are counted.").or("take"),

    Key::new("route", Kind::Tables, "From a queue to an endpoint."),
    Key::new("route[].name", Kind::Name, "Its name, which stays the same over reloads.").required(),
    Key::new("route[].from", Kind::Queue, "The queue; a bare name is one of the embedded store, NAME/QUEUE one of a broker.").required(),
    Key::new("route[].to", Kind::Endpoint, "The URL that messages are posted to.").required(),
    Key::new("route[].timeout", Kind::Duration(Duration::from_millis(10), HOUR), "How long the endpoint may take, its reply included.").or("30s"),
    Key::new("route[].concurrency", Kind::Integer(1, 10_000), "How many messages are delivered at a time.").or("16"),
    Key::new("route[].rate", Kind::Rate, "How many messages are delivered at most: 100/s, 5/m; no limit if not set."),
    Key::new("route[].immediate_retries", Kind::Integer(0, 10), "How often a failed delivery is repeated at once before the attempt counts as failed; 3 with the preset broker.").or("0"),
    Key::new("route[].retry", Kind::Retry, "When a failed message is tried again: the name of a preset, or a table."),
    Key::new("route[].retry.preset", Kind::Choice(retry::PRESETS), "The preset that the other keys change; their defaults are then those of the preset.").or("jobs"),
    Key::new("route[].retry.max_retries", Kind::Integer(0, 1_000), "How many retries follow the first attempt.").or("3"),
    Key::new("route[].retry.first", Kind::Duration(MS, MAX_DELAY), "The delay before the first retry.").or("1s"),
    Key::new("route[].retry.multiplier", Kind::Number(1.0, 1_000.0), "By what the delay is multiplied each time.").or("2"),
    Key::new("route[].retry.max", Kind::Duration(MS, MAX_DELAY), "The longest delay before jitter.").or("30s"),
    Key::new("route[].retry.jitter", Kind::Number(0.0, 1.0), "By what part of itself chance may change a delay.").or("0.1"),
    Key::new("route[].max_retry_after", Kind::Duration(Duration::ZERO, MAX_DELAY), "The longest Retry-After of an endpoint that is honoured.").or("1h"),
    Key::new("route[].lease", Kind::Duration(SECOND, Duration::from_secs(12 * 60 * 60)), "For how long a message is leased; renewed while it is delivered.").or("30s"),
    Key::new("route[].max_deliveries", Kind::Integer(1, 100), "How often a message may be handed out without an outcome before it is set aside.").or("5"),
    Key::new("route[].max_suspected", Kind::Integer(1, 1_000), "How often a message may get no clear answer while others succeed before it is set aside.").or("10"),
    Key::new("route[].max_outage", Kind::Duration(SECOND, MAX_DELAY), "For how long a message may fail through no fault of its own before it is set aside.").or("3d"),
    Key::new("route[].secret", Kind::SigningSecrets, "Signs requests as Standard Webhooks; several while one replaces another; not signed if not set."),
    Key::new("route[].headers", Kind::Headers, "More headers for each request. Values may be env:NAME or file:PATH."),
    Key::new("route[].breaker", Kind::Table, "When an endpoint that is down is left alone."),
    Key::new("route[].breaker.failures", Kind::Integer(0, 1_000), "How many messages must fail, with no success in between, to open it; 0 turns it off.").or("5"),
    Key::new("route[].breaker.pause", Kind::Duration(Duration::from_millis(10), DAY), "How long it stays open before the endpoint is probed, and the first wait of a message whose failure uses up no retry.").or("1s"),
    Key::new("route[].breaker.max_pause", Kind::Duration(Duration::from_millis(10), DAY), "The longest of both; they double with each failure.").or("15s"),
    Key::new("route[].dead_letter", Kind::Choice(DeadLetterMode::NAMES), "How a broker's messages are set aside: published with reason and history, or rejected, which carries neither; published if not set."),
    Key::new("route[].paused", Kind::Boolean, "Whether messages wait until the route is resumed.").or("false"),

    Key::new("network", Kind::Table, "Which addresses endpoints may have."),
    Key::new("network.allow", Kind::Networks, "Always allowed, private or not, unless denied.").or(""),
    Key::new("network.deny", Kind::Networks, "Never allowed.").or(""),
    Key::new("network.private", Kind::Automatic, "Whether private addresses are allowed; auto: while the gateway listens on loopback.").or("auto"),
    Key::new("network.only_listed", Kind::Boolean, "Whether only what `allow` lists is allowed.").or("false"),

    Key::new("token", Kind::Tables, "Who may use the API."),
    Key::new("token[].name", Kind::Name, "Its name, which the audit log shows.").required(),
    Key::new("token[].role", Kind::Choice(Role::NAMES), "What it may do.").required(),
    Key::new("token[].secret", Kind::Secret, "The token itself, at least 16 characters.").required(),
    Key::new("token[].queues", Kind::Queues, "The queues it is limited to; all if not set."),

    Key::new("dead_letters", Kind::Table, "What may be done with dead letters, and how long they are kept."),
    Key::new("dead_letters.keep", Kind::Duration(HOUR, Duration::from_secs(3_650 * 24 * 60 * 60)), "How long they are kept; for ever if not set.").restart(),
    Key::new("dead_letters.warn", Kind::Duration(HOUR, Duration::from_secs(365 * 24 * 60 * 60)), "How long before they are removed the log warns of it.").or("7d").restart(),
    Key::new("dead_letters.editable", Kind::Queues, "The queues whose dead letters may be edited; none if not set."),
    Key::new("dead_letters.approval", Kind::Boolean, "Whether somebody else must approve an edit before it can be replayed.").or("false"),

    Key::new("log", Kind::Table, "What is logged, and how."),
    Key::new("log.format", Kind::Choice(LogFormat::NAMES), "Lines for people or JSON for programs.").or("text").restart(),
    Key::new("log.level", Kind::Choice(LogLevel::NAMES), "The least level that is logged.").or("info"),
    Key::new("log.filter", Kind::Filter, "Levels for parts, instead of `level`: info,bezoar=debug."),

    Key::new("telemetry", Kind::Table, "What is measured, and where it is sent."),
    Key::new("telemetry.otlp_endpoint", Kind::Endpoint, "Where traces and metrics are sent by OTLP over HTTP; nowhere if not set.").restart(),
    Key::new("telemetry.service_name", Kind::Name, "The name of this service there.").or("bezoar").restart(),
    Key::new("telemetry.traces", Kind::Boolean, "Whether traces are made.").or("true").restart(),
    Key::new("telemetry.metrics", Kind::Boolean, "Whether metrics are made, also for /metrics.").or("true").restart(),
    Key::new("telemetry.correlation", Kind::Boolean, "Whether correlation ids are in the log, and traces go on from callers to endpoints.").or("true").restart(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_parent_before_it_and_a_line_of_documentation() {
        for (position, key) in KEYS.iter().enumerate() {
            let parent = key.parent().trim_end_matches("[]").trim_end_matches(".*");
            let before = &KEYS[..position];
            assert!(
                parent.is_empty() || before.iter().any(|key| key.path == parent),
                "{}",
                key.path
            );
            assert!(before.iter().all(|other| other.path != key.path), "{} twice", key.path);
            assert!(key.doc.ends_with('.'), "{}", key.path);
            assert!(!(key.required && key.default.is_some()), "{}", key.path);
        }
    }

    #[test]
    fn names_that_may_hold_a_secret_anywhere_are_known() {
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

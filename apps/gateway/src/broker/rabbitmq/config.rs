//! The keys of `[transports.NAME]` for RabbitMQ.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::rabbitmq::LONGEST_DELAY;

use crate::{
    broker::{BrokerTransport, KindSettings, TransportKind, TransportSettings, server_url},
    config::{
        Config, InvalidValue, Key, Kind, Name, Secret,
        names::choice,
        reader::{Section, SectionReader},
    },
};

/// A RabbitMQ broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RabbitMqConfig {
    /// Its URL, with user and password.
    pub url: Secret,
    /// The URL of its HTTP API, with user and password.
    pub management_url: Option<Secret>,
    /// CA certificates to trust for the HTTP API.
    pub management_ca: Option<PathBuf>,
    /// The type of the queues that are created.
    pub queue_type: QueueKind,
    /// Whether missing queues, exchanges and bindings are created.
    pub provision: bool,
    /// The longest delay before a retry.
    pub max_delay: Duration,
    /// Which queues get a return queue.
    pub return_queues: ReturnQueueMode,
    /// The broker's consumer timeout.
    pub consumer_timeout: Duration,
    /// How many bytes the broker may send ahead to the consumer of a queue.
    pub max_prefetch_bytes: u64,
    /// CA certificates to trust.
    pub tls_ca: Option<PathBuf>,
    /// The client certificate.
    pub tls_certificate: Option<PathBuf>,
    /// The private key of the client certificate.
    pub tls_key: Option<PathBuf>,
}

choice! {
    /// The type of the queues that are created.
    QueueKind {
        /// Replicated, with at-least-once dead-lettering.
        Quorum = "quorum",
        /// On one node.
        Classic = "classic",
    }
}

choice! {
    /// Which queues get a return queue.
    ReturnQueueMode {
        /// Those that can be full.
        Auto = "auto",
        /// All of them.
        Always = "always",
    }
}

/// `amqp://` and `amqps://`.
pub(in crate::broker) const KIND: TransportKind = TransportKind {
    name: "RabbitMQ",
    schemes: SCHEMES,
    example: EXAMPLE,
    keys: KEYS,
    read: |reader, section| RabbitMqConfig::read(reader, section).map(TransportSettings::RabbitMq),
};

const SCHEMES: &[&str] = &["amqp", "amqps"];
const EXAMPLE: &str = "amqp://user@localhost:5672/%2f";
const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1024 * 1024;
const TIB: u64 = 1024 * 1024 * MIB;

#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new("transports.*.url", Kind::BrokerUrl(EXAMPLE), "URL of the broker: amqp://USER@HOST:PORT/VHOST, or amqps. Several hosts are separated by commas; each process tries them in an order of its own.").required().restart(),
    Key::new("transports.*.user", Kind::Name, "User name, if the URL has none.").restart(),
    Key::new("transports.*.password", Kind::Secret, "Password, if the URL has none.").restart(),
    Key::new("transports.*.management_url", Kind::BrokerUrl("http://user@localhost:15672"), "URL of the broker's HTTP API, for information that AMQP does not provide; uses the same user and password if it has none.").restart(),
    Key::new("transports.*.management_ca", Kind::File, "CA certificates to trust for the broker's HTTP API in addition to the system's, in PEM.").restart(),
    Key::new("transports.*.queue_type", Kind::Choice(QueueKind::NAMES), "Type of the queues that are created.").or("quorum").restart(),
    Key::new("transports.*.provision", Kind::Boolean, "Whether missing queues, exchanges and bindings are created; otherwise they are only checked.").or("true").restart(),
    Key::new("transports.*.max_delay", Kind::Duration(SECOND, LONGEST_DELAY), "Longest delay before a retry. Longer ones need more delay queues on the broker: 42 for 1h, 49 for 14h, 64 for 75d.").or("14h").restart(),
    Key::new("transports.*.return_queues", Kind::Choice(ReturnQueueMode::NAMES), "Which queues get a return queue, where retries wait if the queue is full: those that can be full, or all.").or("auto").restart(),
    Key::new("transports.*.consumer_timeout", Kind::Duration(SECOND, LONGEST_DELAY), "The broker's consumer timeout, after which it takes back a message that is not settled.").or("30m").restart(),
    Key::new("transports.*.max_prefetch", Kind::Size(MIB, TIB), "Memory for the messages of each queue that the broker sends ahead. It counts messages, so their number follows the sizes of the latest ones: if large ones come suddenly, the limit may be exceeded once. One message always fits.").or("512MiB").restart(),
    Key::new("transports.*.tls_ca", Kind::File, "CA certificates to trust in addition to the system's, in PEM.").restart(),
    Key::new("transports.*.tls_certificate", Kind::File, "Client certificate, in PEM.").restart(),
    Key::new("transports.*.tls_key", Kind::File, "Private key of the client certificate, in PEM.").restart(),
];

impl RabbitMqConfig {
    fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        let (url, management_url) = urls(reader, section);
        let broker = Self {
            url: url?,
            management_url,
            management_ca: reader.optional(section, "management_ca"),
            queue_type: reader.or_default(section, "queue_type"),
            provision: reader.or_default(section, "provision"),
            max_delay: reader.or_default(section, "max_delay"),
            return_queues: reader.or_default(section, "return_queues"),
            consumer_timeout: reader.or_default(section, "consumer_timeout"),
            max_prefetch_bytes: reader.or_default(section, "max_prefetch"),
            tls_ca: reader.optional(section, "tls_ca"),
            tls_certificate: reader.optional(section, "tls_certificate"),
            tls_key: reader.optional(section, "tls_key"),
        };
        if broker.tls_certificate.is_some() != broker.tls_key.is_some() {
            let remedy = "set both tls_certificate and tls_key, or neither";
            reader.refuse(
                section,
                "tls_key",
                InvalidValue::new("requires tls_certificate, and the other way round", remedy),
            );
        }
        Some(broker)
    }
}

impl KindSettings for RabbitMqConfig {
    fn open(&self, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
        super::open(self, name, all)
    }

    fn provisions(&self) -> bool {
        self.provision
    }

    fn longest_delay(&self) -> Duration {
        self.max_delay
    }
}

/// Both URLs, with user and password in them.
fn urls(reader: &mut SectionReader<'_>, section: &Section<'_>) -> (Option<Secret>, Option<Secret>) {
    let (user, password) = server_url::credentials(reader, section);
    let user = user.as_ref().map(Name::as_str);
    let password = password.as_ref().map(Secret::reveal);
    let amqp = server_url::read(reader, section, "url", SCHEMES).map(|url| url.or(user, password));
    let http = match section.has("management_url") {
        true => server_url::read(reader, section, "management_url", &["http", "https"]),
        false => None,
    };
    let http = http.map(|http| match &amqp {
        Some(amqp) => http.or(user, password).or_as(amqp),
        None => http,
    });
    (amqp.map(|url| url.written()), http.map(|url| url.written()))
}

//! The keys of `[transports.NAME]` for Azure Storage Queue.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use bezoar::{
    Invalid, Polling, QueueName, Worker,
    azure::{
        ClaimCheck, ErrorTexts, ForeignText, LONGEST_DELAY, Limits, Options, check_queue_name,
    },
};

use super::account::{AccountConfig, CredentialKind};
use crate::{
    broker::{
        BrokerTransport, KindSettings, QueueProblem, RouteDefaults, TransportKind,
        TransportSettings,
    },
    config::{
        Config, InvalidValue, Key, Kind, Name, QueueConfig,
        names::choice,
        reader::{Section, SectionReader, Warn},
    },
};

/// A storage account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AzureConfig {
    /// The account and its credential.
    pub account: AccountConfig,
    /// Whether missing queues are created.
    pub create_if_missing: bool,
    /// How long Azure keeps a message; for ever if not set.
    pub time_to_live: Option<Duration>,
    /// How many messages are fetched, handled and sent at a time, and how often.
    pub limits: Limits,
    /// Where bodies go that are too large for a message.
    pub claim_check: Option<ClaimCheck>,
    /// The age at which bodies without a message are removed.
    pub orphans_after: Option<Duration>,
    /// How the text of messages from other programs is read.
    pub foreign_text: ForeignTextChoice,
    /// What a poison record says about the error.
    pub error_texts: ErrorTextsChoice,
    /// How long dead letters that are being taken in are invisible to others.
    pub dead_letter_lease: Duration,
    /// The timeout of one request.
    pub request_timeout: Duration,
}

choice! {
    /// How the text of messages from other programs is read.
    ForeignTextChoice {
        /// Base64 that decodes to UTF-8 text is decoded.
        Detect = "detect",
        /// The text is the body.
        Plain = "plain",
        /// The text is base64.
        Base64 = "base64",
    }
}

choice! {
    /// What a poison record says about the error.
    ErrorTextsChoice {
        /// The error's own text.
        Keep = "keep",
        /// The reason in words that are safe to show.
        Redact = "redact",
        /// Nothing.
        Omit = "omit",
    }
}

impl From<ForeignTextChoice> for ForeignText {
    fn from(choice: ForeignTextChoice) -> Self {
        match choice {
            ForeignTextChoice::Detect => Self::Detect,
            ForeignTextChoice::Plain => Self::Plain,
            ForeignTextChoice::Base64 => Self::Base64,
        }
    }
}

impl From<ErrorTextsChoice> for ErrorTexts {
    fn from(choice: ErrorTextsChoice) -> Self {
        match choice {
            ErrorTextsChoice::Keep => Self::Keep,
            ErrorTextsChoice::Redact => Self::Redact,
            ErrorTextsChoice::Omit => Self::Omit,
        }
    }
}

/// `azurequeue:`.
pub(in crate::broker) const KIND: TransportKind = TransportKind {
    name: "Azure Storage Queue",
    schemes: &["azurequeue"],
    example: URL,
    keys: KEYS,
    read: |reader, section| {
        let read = AzureConfig::read(reader, section)?;
        Some(TransportSettings::Azure(Box::new(read)))
    },
};

const URL: &str = "azurequeue:";
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const TEN_YEARS: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
/// What Azure can count, in seconds, as whole days.
const LONGEST_LIFE: Duration = Duration::from_secs(24_855 * 24 * 60 * 60);
const MIB: u64 = 1024 * 1024;

#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new("transports.*.url", Kind::BrokerUrl(URL), "Always azurequeue: and nothing else; the account is in the other keys.").required().restart(),
    Key::new("transports.*.connection_string", Kind::Secret, "Connection string of the storage account, as the Azure portal shows it; or UseDevelopmentStorage=true.").restart(),
    Key::new("transports.*.account", Kind::BrokerUrl("https://lab.queue.core.windows.net"), "Endpoint of the account's queues, with `credential` or `sas` instead of a connection string.").restart(),
    Key::new("transports.*.credential", Kind::Choice(CredentialKind::NAMES), "How to sign in to Entra ID for `account`.").restart(),
    Key::new("transports.*.tenant_id", Kind::Name, "Tenant of the credential; AZURE_TENANT_ID if not set.").restart(),
    Key::new("transports.*.client_id", Kind::Name, "Client id of the credential; AZURE_CLIENT_ID if not set.").restart(),
    Key::new("transports.*.client_secret", Kind::Secret, "Client secret, for credential = \"client-secret\"; AZURE_CLIENT_SECRET if not set.").restart(),
    Key::new("transports.*.token_file", Kind::File, "Token file, for credential = \"workload-identity\"; AZURE_FEDERATED_TOKEN_FILE if not set.").restart(),
    Key::new("transports.*.sas", Kind::Secret, "Shared access signature for `account`.").restart(),
    Key::new("transports.*.create_if_missing", Kind::Boolean, "Whether missing queues, poison queues and the container of the claim check are created; otherwise use `bezoar provision`.").or("true").restart(),
    Key::new("transports.*.time_to_live", Kind::Duration(SECOND, LONGEST_LIFE), "How long Azure keeps a message before it deletes it without a trace; for ever if not set. Poison records are kept for ever.").restart(),
    Key::new("transports.*.visibility_timeout", Kind::Duration(SECOND, LONGEST_DELAY), "How long a message is leased; the `lease` of its routes if they set none.").or("30s").restart(),
    Key::new("transports.*.max_dequeue_count", Kind::Integer(1, 100), "How many times a message may be delivered without an outcome; the `max_deliveries` of its routes if they set none.").or("5").restart(),
    Key::new("transports.*.fetch_loops", Kind::Integer(1, 100), "How many loops of a route fetch messages. The `concurrency` of its routes is fetch_loops × batch_concurrency if they set none.").or("5").restart(),
    Key::new("transports.*.batch_concurrency", Kind::Integer(1, 32), "How many messages each loop delivers at a time; at most `prefetch`.").or("1").restart(),
    Key::new("transports.*.prefetch", Kind::Integer(1, 32), "How many messages one request may lease, never more than can be delivered at once.").or("16").restart(),
    Key::new("transports.*.publish_concurrency", Kind::Integer(1, 128), "How many messages of a batch are sent at a time.").or("16").restart(),
    Key::new("transports.*.first_poll", Kind::Duration(Duration::from_millis(10), HOUR), "First pause before an empty queue is polled again; it doubles up to `longest_poll`.").or("1s").restart(),
    Key::new("transports.*.longest_poll", Kind::Duration(Duration::from_millis(10), HOUR), "Longest pause before an empty queue is polled again.").or("5s").restart(),
    Key::new("transports.*.claim_check", Kind::Table, "Stores bodies that do not fit into a message in Blob Storage; off if not set.").restart(),
    Key::new("transports.*.claim_check.container", Kind::Name, "Blob container for the bodies.").or("bezoar-bodies").restart(),
    Key::new("transports.*.claim_check.max_bytes", Kind::Size(1, 5_000 * MIB), "Largest body that is accepted.").or("16MiB").restart(),
    Key::new("transports.*.claim_check.orphans_after", Kind::Duration(HOUR, TEN_YEARS), "Age at which bodies without a message are removed, longer than any message ever waits; never if not set.").restart(),
    Key::new("transports.*.foreign_text", Kind::Choice(ForeignTextChoice::NAMES), "How messages of other programs are read: as plain text, as base64, or as base64 if it decodes to text.").or("detect").restart(),
    Key::new("transports.*.error_texts", Kind::Choice(ErrorTextsChoice::NAMES), "What a poison record says about the error: its text, which may contain personal data, only the reason, or nothing.").or("keep").restart(),
    Key::new("transports.*.dead_letter_lease", Kind::Duration(SECOND, LONGEST_DELAY), "How long dead letters that are being taken in are invisible to other programs.").or("30s").restart(),
    Key::new("transports.*.request_timeout", Kind::Duration(SECOND, HOUR), "Timeout of one request, including the connection.").or("30s").restart(),
];

impl AzureConfig {
    /// Reads every key before it gives up, so that all problems are reported at once.
    fn read(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Option<Self> {
        read_url(reader, section);
        let account = AccountConfig::read(reader, section);
        let (claim_check, orphans_after) =
            read_claim_check(reader, &section.table("claim_check")).unzip();
        let config = Self {
            account: account.clone().unwrap_or_else(AccountConfig::emulator),
            create_if_missing: reader.or_default(section, "create_if_missing"),
            time_to_live: reader.optional(section, "time_to_live"),
            limits: read_limits(reader, section),
            claim_check,
            orphans_after: orphans_after.flatten(),
            foreign_text: reader.or_default(section, "foreign_text"),
            error_texts: reader.or_default(section, "error_texts"),
            dead_letter_lease: reader.or_default(section, "dead_letter_lease"),
            request_timeout: reader.or_default(section, "request_timeout"),
        };
        for invalid in config.options().check().err().into_iter().flat_map(|all| all.0) {
            refuse(reader, section, &invalid);
        }
        account.map(|_| config)
    }

    /// The options of the transport, without the names of poison queues.
    pub(super) fn options(&self) -> Options {
        Options {
            create_if_missing: self.create_if_missing,
            time_to_live: self.time_to_live,
            limits: self.limits,
            claim_check: self.claim_check.clone(),
            foreign_text: self.foreign_text.into(),
            error_texts: self.error_texts.into(),
            dead_letter_lease: self.dead_letter_lease,
            request_timeout: self.request_timeout,
            ..Options::new(self.account.account().clone())
        }
    }

    /// How many loops deliver `concurrency` messages at a time, and how many each: as many loops as are configured, or
    /// the largest smaller number of them that divides the concurrency, so that it is exact.
    fn loops(&self, concurrency: u32) -> (u32, u32) {
        let most = self.limits.fetch_loops.min(concurrency).max(1);
        let loops = (1..=most).rev().find(|loops| concurrency.is_multiple_of(*loops)).unwrap_or(1);
        (loops, concurrency / loops)
    }
}

/// Reports an option that the transport refuses, at its key.
fn refuse(reader: &mut SectionReader<'_>, section: &Section<'_>, invalid: &Invalid) {
    let refused = InvalidValue::new(invalid.problem.clone(), "correct it");
    match invalid.field.split_once('.') {
        Some((table, key)) => reader.refuse(&section.table(table), key, refused),
        None => reader.refuse(section, invalid.field, refused),
    }
}

/// The URL only names the kind. What follows may be a secret, and is not quoted.
fn read_url(reader: &mut SectionReader<'_>, section: &Section<'_>) {
    let Some(node) = section.node("url") else { return };
    let path = section.path.key("url");
    let url = reader.resolved_as(&path, node, Warn::Never, |_| URL.to_owned());
    if url.is_some_and(|url| url.reveal() != URL) {
        let remedy = "write \"azurequeue:\", and set connection_string or account";
        reader.refuse(section, "url", InvalidValue::new("has more than its scheme", remedy));
    }
}

fn read_limits(reader: &mut SectionReader<'_>, section: &Section<'_>) -> Limits {
    Limits {
        visibility_timeout: reader.or_default(section, "visibility_timeout"),
        max_dequeue_count: reader.or_default(section, "max_dequeue_count"),
        fetch_loops: reader.or_default(section, "fetch_loops"),
        batch_concurrency: reader.or_default(section, "batch_concurrency"),
        prefetch: reader.or_default(section, "prefetch"),
        publish_concurrency: reader.or_default(section, "publish_concurrency"),
        first_poll: reader.or_default(section, "first_poll"),
        longest_poll: reader.or_default(section, "longest_poll"),
    }
}

/// The claim check, and the age of orphans; `None` if there is no such table.
fn read_claim_check(
    reader: &mut SectionReader<'_>,
    section: &Section<'_>,
) -> Option<(ClaimCheck, Option<Duration>)> {
    section.content()?;
    let container: Name = reader.or_default(section, "container");
    let max_bytes: u64 = reader.or_default(section, "max_bytes");
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let claim_check = ClaimCheck { container: container.as_str().to_owned(), max_bytes };
    Some((claim_check, reader.optional(section, "orphans_after")))
}

impl KindSettings for AzureConfig {
    fn open(&self, name: &Name, all: &Config) -> Result<Arc<dyn BrokerTransport>> {
        super::open(self, name, all)
    }

    fn provisions(&self) -> bool {
        self.create_if_missing
    }

    /// Azure refuses a delay that outlasts the message.
    fn longest_delay(&self) -> Duration {
        let life = self.time_to_live.unwrap_or(Duration::MAX);
        LONGEST_DELAY.min(life.saturating_sub(SECOND))
    }

    fn route_defaults(&self) -> RouteDefaults {
        RouteDefaults {
            concurrency: Some(self.limits.concurrency()),
            lease: Some(self.limits.visibility_timeout),
            max_deliveries: Some(self.limits.max_dequeue_count),
        }
    }

    fn consume(&self, worker: Worker, concurrency: u32) -> Worker {
        let (loops, each) = self.loops(concurrency);
        let polling = Polling { first: self.limits.first_poll, longest: self.limits.longest_poll };
        worker.fetch_loops(loops).concurrency(each).polling(polling)
    }

    fn check_queue(&self, there: &QueueName, said: Option<&QueueConfig>) -> Vec<QueueProblem> {
        let mut problems = Vec::new();
        let mut check = |key, name: &str| match QueueName::new(name).map(|it| check_queue_name(&it))
        {
            Ok(Ok(())) => (),
            Ok(Err(invalid)) => problems.push((key, invalid.problem)),
            Err(invalid) => problems.push((key, invalid.problem)),
        };
        check("name", there.as_str());
        match said.and_then(|said| said.dead_letter_queue.as_ref()) {
            Some(own) => check("dead_letter_queue", own.as_str()),
            None if there.as_str().len() > LONGEST_NAME => problems.push(("name", too_long(there))),
            None => (),
        }
        let lacks = "is for RabbitMQ; Azure Storage Queue has no exchanges".to_owned();
        if said.is_some_and(|said| said.dead_letter_exchange.is_some()) {
            problems.push(("dead_letter_exchange", lacks.clone()));
        }
        if said.is_some_and(|said| said.dead_letter_key.is_some()) {
            problems.push(("dead_letter_key", lacks));
        }
        problems
    }

    fn rejects(&self) -> bool {
        false
    }

    fn orphans_after(&self) -> Option<Duration> {
        self.orphans_after
    }

    fn dead_letter_queue(
        &self,
        there: &QueueName,
        said: Option<&QueueConfig>,
    ) -> Option<QueueName> {
        match said.and_then(|said| said.dead_letter_queue.as_ref()) {
            Some(own) => QueueName::new(own.as_str()).ok(),
            None => QueueName::new(format!("{there}-poison")).ok(),
        }
    }

    fn retries_poison(&self) -> bool {
        true
    }
}

/// The longest name that leaves room for `-poison`.
const LONGEST_NAME: usize = 63 - "-poison".len();

fn too_long(queue: &QueueName) -> String {
    format!(
        "{:?} leaves no room for -poison: use at most {LONGEST_NAME} characters, or set dead_letter_queue",
        queue.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Sources};

    fn lab(fetch_loops: u32) -> AzureConfig {
        let text = format!(
            "[transports.lab]\nurl = 'azurequeue:'\nconnection_string = 'UseDevelopmentStorage=true'\n\
             fetch_loops = {fetch_loops}"
        );
        let sources = Sources { file: Some(("b.toml".into(), text)), ..Sources::default() };
        let loaded = config::load(&sources, &config::read_secret).unwrap();
        match &loaded.config.transports[0].settings {
            TransportSettings::Azure(azure) => (**azure).clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn loops_times_messages_of_each_is_exactly_the_concurrency() {
        for (fetch_loops, concurrency, expected) in [
            (5, 5, (5, 1)),
            (5, 20, (5, 4)),
            (5, 16, (4, 4)),
            (5, 3, (3, 1)),
            (5, 1, (1, 1)),
            (5, 17, (1, 17)),
            (1, 16, (1, 16)),
        ] {
            let (loops, each) = lab(fetch_loops).loops(concurrency);
            assert_eq!((loops, each), expected, "{concurrency}");
            assert_eq!(loops * each, concurrency);
        }
    }
}

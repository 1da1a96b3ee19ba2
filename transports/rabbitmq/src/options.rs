//! The options of the transport: the broker's address, TLS, queue type, limits and timeouts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bezoar_core::{Clock, Invalid, QueueName, SystemClock};
use lapin::uri::AMQPUri;
use secrecy::{ExposeSecret, SecretString};

use crate::{DeadLetterNames, LONGEST_DELAY, Pem, connection::address, connection::tls};

/// Where the broker is, and how to use it.
#[derive(Debug, Clone)]
pub struct Options {
    /// `amqp://user:password@host:port/vhost`, or `amqps`. Several hosts are separated by commas. Each
    /// process tries them in an order of its own, so that processes spread over a cluster. `?heartbeat=10` sets the
    /// heartbeat in seconds. Hidden, because it contains a password.
    pub url: SecretString,
    /// Certificate authorities to trust, in addition to those of this machine.
    pub tls_ca: Option<Pem>,
    /// The client certificate, for a broker that asks for one; needs `tls_key`.
    pub tls_certificate: Option<Pem>,
    /// The private key of `tls_certificate`, not encrypted.
    pub tls_key: Option<Pem>,
    /// `http://user:password@host:15672`, the management API. Listing queues and checking bindings need it.
    pub management_url: Option<SecretString>,
    /// Certificate authorities to trust for an `https` management API, in addition to those of this machine. Read when
    /// the transport is opened.
    pub management_ca: Option<Pem>,
    /// The type of queues that `provision` creates.
    pub queue_type: QueueType,
    /// How a message is dead-lettered.
    pub dead_lettering: DeadLettering,
    /// The names of dead-letter exchanges and queues that are not the default ones, by work queue.
    pub dead_letter_names: BTreeMap<QueueName, DeadLetterNames>,
    /// The longest delay, at most [`LONGEST_DELAY`]. Each factor of eight costs seven more delay queues: 14 hours, the
    /// default, need 49, and one hour needs 42.
    pub max_delay: Duration,
    /// Which queues have a return queue, so that retries that they have no room for hold up no others.
    pub return_queues: ReturnQueues,
    /// The largest accepted body. RabbitMQ 4.0 accepts 16 MiB by default.
    pub max_message_bytes: usize,
    /// How many bytes the broker may send ahead to a consumer or a dead-letter feed. It limits messages by number, so the
    /// number follows their sizes: if large ones come suddenly, the limit may be exceeded once.
    pub max_prefetch_bytes: usize,
    /// How long a handler may take, if that is known: `validate` compares it with the broker's consumer timeout.
    pub handler_timeout: Option<Duration>,
    /// The broker's consumer timeout, 30 minutes by default. The broker closes a channel with a message that is leased for
    /// longer. A consumer with such a message continues on another channel in time, so that only this message is lost.
    pub consumer_timeout: Duration,
    /// The timeout of connecting to one host, and of each request.
    pub connect_timeout: Duration,
    /// How long to wait for a publisher confirm, including the time that an alarm blocks publishers. Retries and dead
    /// letters that were written when an alarm began wait until it ends.
    pub confirm_timeout: Duration,
    /// The longest pause between two attempts to connect; the first is 100 ms, and each is twice as long as the last.
    pub reconnect_pause: Duration,
    /// After this time without a `receive`, prefetched messages return to the queue for other consumers.
    pub idle: Duration,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The type of queues that `provision` creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueueType {
    /// Replicated; moves messages between queues without losing any.
    Quorum,
    /// On one node. Expired or rejected messages move inside the broker without a confirm, and may be lost.
    Classic,
}

impl QueueType {
    /// The value of `x-queue-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// How a message is dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLettering {
    /// By a confirmed publish to the dead-letter exchange, with its reason and ledger.
    Publish,
    /// By `basic.reject`: the broker moves the message, without reason and ledger.
    Reject,
}

/// Which queues get a return queue from `provision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReturnQueues {
    /// Those that can be full: with a maximum length, and an overflow that refuses messages. Without the management API,
    /// every queue that does not have our arguments.
    Auto,
    /// All of them. Costs one more queue for each, and one more hop for every delayed message.
    Always,
}

impl Options {
    /// Parses `amqp://…` or `amqps://…`. Defaults: quorum queues, bodies up to 16 MiB, ten seconds to connect, thirty
    /// for a confirm.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is not such a URL. The error does not repeat it.
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let options = Self {
            url: url.into(),
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            management_url: None,
            management_ca: None,
            queue_type: QueueType::Quorum,
            dead_lettering: DeadLettering::Publish,
            dead_letter_names: BTreeMap::new(),
            max_delay: Duration::from_secs(14 * 60 * 60),
            return_queues: ReturnQueues::Auto,
            max_message_bytes: 16 * 1024 * 1024,
            max_prefetch_bytes: 512 * 1024 * 1024,
            handler_timeout: None,
            consumer_timeout: Duration::from_secs(30 * 60),
            connect_timeout: Duration::from_secs(10),
            confirm_timeout: Duration::from_secs(30),
            reconnect_pause: Duration::from_secs(10),
            idle: Duration::from_secs(1),
            clock: Arc::new(SystemClock),
        };
        options.uris().map(|_| options)
    }

    /// The address of each host.
    pub(crate) fn uris(&self) -> Result<Vec<AMQPUri>, Invalid> {
        address::parse(self.url.expose_secret())
    }

    /// The address of the first host, for what applies to all of them.
    pub(crate) fn uri(&self) -> Result<AMQPUri, Invalid> {
        Ok(self.uris()?.swap_remove(0))
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        const BROKER_LIMIT_BYTES: usize = 512 * 1024 * 1024;
        if self.max_message_bytes > BROKER_LIMIT_BYTES {
            let problem = format!("is above {BROKER_LIMIT_BYTES}, the limit of RabbitMQ");
            return Err(Invalid::new("max_message_bytes", problem));
        }
        if self.max_delay > LONGEST_DELAY {
            return Err(Invalid::new("max_delay", "is above 75 days, the limit"));
        }
        for (field, value) in [
            ("consumer_timeout", self.consumer_timeout),
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
            ("idle", self.idle),
        ] {
            if value.is_zero() {
                return Err(Invalid::new(field, "must not be 0"));
            }
        }
        let encrypted = address::is_encrypted(&self.uri()?);
        let tls = [&self.tls_ca, &self.tls_certificate, &self.tls_key];
        if !encrypted && tls.iter().any(|pem| pem.is_some()) {
            return Err(Invalid::new("url", "is not encrypted, but tls_* is set; use amqps://"));
        }
        tls::configuration(self).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_checked_and_never_repeated() {
        assert!(Options::from_url("amqp://guest:guest@localhost:5672/%2f").is_ok());
        for bad in ["http://me:CANARY@host", "CANARY", ""] {
            let refused = Options::from_url(bad).unwrap_err();
            assert!(!refused.to_string().contains("CANARY"), "{refused}");
        }
        let shown = format!("{:?}", Options::from_url("amqp://me:CANARY@localhost").unwrap());
        assert!(!shown.contains("CANARY"), "{shown}");
    }

    #[test]
    fn an_unusable_option_is_refused_by_name() {
        let good = || Options::from_url("amqp://localhost").unwrap();
        assert!(good().check().is_ok());
        for (options, field) in [
            (Options { max_message_bytes: usize::MAX, ..good() }, "max_message_bytes"),
            (Options { idle: Duration::ZERO, ..good() }, "idle"),
            (Options { max_delay: Duration::MAX, ..good() }, "max_delay"),
            (Options { tls_ca: Some("ca.pem".into()), ..good() }, "amqps"),
        ] {
            let refused = options.check().unwrap_err();
            assert!(refused.to_string().contains(field), "{refused}");
        }
    }
}

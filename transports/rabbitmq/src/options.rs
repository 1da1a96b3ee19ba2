//! Where the broker is and how it is used.

use std::{sync::Arc, time::Duration};

use bezoar_core::{Clock, Invalid, SystemClock};
use lapin::uri::AMQPUri;
use secrecy::{ExposeSecret, SecretString};

use crate::{Pem, connection::address, connection::tls};

/// Where the broker is and how it is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// `amqp://user:password@host:port/vhost`, or `amqps`. Several hosts are separated by commas, and tried in
    /// turn. `?heartbeat=10` is honoured, in seconds. Hidden, because it holds a password.
    pub url: SecretString,
    /// Who else is trusted to say who the broker is, beside those whom this machine trusts.
    pub tls_ca: Option<Pem>,
    /// Who we are, for a broker that asks for a certificate; the key goes with it.
    pub tls_certificate: Option<Pem>,
    /// The key of `tls_certificate`, not encrypted.
    pub tls_key: Option<Pem>,
    /// `http://user:password@host:15672`, for listing queues and for checking bindings; without it neither.
    pub management_url: Option<SecretString>,
    /// Which queues `provision` makes.
    pub queue_type: QueueType,
    /// How a message is set aside.
    pub dead_lettering: DeadLettering,
    /// The largest body that is accepted. RabbitMQ 4.0 takes 16 MiB unless told otherwise.
    pub max_message_bytes: usize,
    /// How long a handler may take, if that is known: `validate` compares it with the broker's patience.
    pub handler_timeout: Option<Duration>,
    /// How long to wait for a connection to one host, or for an answer to a request.
    pub connect_timeout: Duration,
    /// How long to wait for the broker to confirm what was published, an alarm included.
    pub confirm_timeout: Duration,
    /// The longest pause between two tries to connect; the first is 100 ms, each next twice as long.
    pub reconnect_pause: Duration,
    /// After so long without a `receive`, what was sent ahead goes back to the queue for other consumers.
    pub idle: Duration,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
}

/// Which queues `provision` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueType {
    /// Replicated, and never loses a message between two queues of its own.
    Quorum,
    /// On one node. What expires or is rejected moves without a confirmation inside the broker.
    Classic,
}

impl QueueType {
    /// The word that the broker uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// How a message is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLettering {
    /// By a confirmed publish to the dead-letter exchange, with reason and ledger.
    Publish,
    /// By `basic.reject`: the broker moves it, and neither reason nor ledger goes with it.
    Reject,
}

impl Options {
    /// Reads `amqp://…` or `amqps://…`: quorum queues, bodies up to 16 MiB, ten seconds for a connection,
    /// thirty for a confirmation.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is no such URL. The error does not repeat it.
    pub fn from_url(url: &str) -> Result<Self, Invalid> {
        let options = Self {
            url: url.into(),
            tls_ca: None,
            tls_certificate: None,
            tls_key: None,
            management_url: None,
            queue_type: QueueType::Quorum,
            dead_lettering: DeadLettering::Publish,
            max_message_bytes: 16 * 1024 * 1024,
            handler_timeout: None,
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

    /// What all hosts share.
    pub(crate) fn uri(&self) -> Result<AMQPUri, Invalid> {
        Ok(self.uris()?.swap_remove(0))
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        const BROKER_LIMIT_BYTES: usize = 512 * 1024 * 1024;
        if self.max_message_bytes > BROKER_LIMIT_BYTES {
            let problem = format!("is above {BROKER_LIMIT_BYTES}, which no broker takes");
            return Err(Invalid::new("max_message_bytes", problem));
        }
        for (field, value) in [
            ("connect_timeout", self.connect_timeout),
            ("confirm_timeout", self.confirm_timeout),
            ("idle", self.idle),
        ] {
            if value.is_zero() {
                return Err(Invalid::new(field, "is 0, and nothing is that fast"));
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
    fn what_cannot_be_used_is_refused_by_name() {
        let good = || Options::from_url("amqp://localhost").unwrap();
        assert!(good().check().is_ok());
        for (options, field) in [
            (Options { max_message_bytes: usize::MAX, ..good() }, "max_message_bytes"),
            (Options { idle: Duration::ZERO, ..good() }, "idle"),
            (Options { tls_ca: Some("ca.pem".into()), ..good() }, "amqps"),
        ] {
            let refused = options.check().unwrap_err();
            assert!(refused.to_string().contains(field), "{refused}");
        }
    }
}

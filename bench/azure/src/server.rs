//! Where the queues are: Azurite, or a stub that answers at once.

use anyhow::{Context as _, Result};
use test_support::azurite::Azurite;

use crate::{options::Options, stub};

const STUB_ACCOUNT: &str = "stub";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Microsoft's emulator.
    Azurite,
    /// Answers at once, and speaks just enough of the protocol.
    Stub,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    /// What our rate must be of the bare crate's, and of each peer's.
    pub(crate) needed: f64,
    pub(crate) needed_of_peers: Option<f64>,
    /// The endpoint of the queues.
    endpoint: String,
    /// The query of a shared access signature: it costs no contender anything.
    signature: String,
    _azurite: Option<Azurite>,
}

impl Server {
    pub(crate) fn start_all(options: &Options) -> Result<Vec<Self>> {
        let kinds = [Kind::Azurite, Kind::Stub];
        let kinds = kinds.into_iter().filter(|kind| options.only.is_none_or(|it| it == *kind));
        kinds.map(Self::start).collect()
    }

    fn start(kind: Kind) -> Result<Self> {
        match kind {
            Kind::Azurite => Self::azurite(),
            Kind::Stub => Self::stub(),
        }
    }

    /// It is the bottleneck.
    fn azurite() -> Result<Self> {
        let azurite = Azurite::under_test().context("starting Azurite")?;
        let (port, account) = (azurite.queue_port(), azurite.account());
        Ok(Self {
            kind: Kind::Azurite,
            name: "Azurite",
            needed: 0.95,
            needed_of_peers: None,
            endpoint: format!("http://127.0.0.1:{port}/{account}"),
            signature: azurite.signature("rwdlacup", "2099-01-01"),
            _azurite: Some(azurite),
        })
    }

    fn stub() -> Result<Self> {
        Ok(Self {
            kind: Kind::Stub,
            name: "stub",
            needed: 0.8,
            needed_of_peers: Some(1.0),
            endpoint: format!("http://127.0.0.1:{}/{STUB_ACCOUNT}", stub::start()?),
            signature: "sv=2020-08-04&ss=q&srt=sco&sp=rwdlacup&se=2099-01-01&sig=none".to_owned(),
            _azurite: None,
        })
    }

    /// The URL of a queue, with the signature.
    pub(crate) fn queue(&self, name: &str) -> String {
        format!("{}/{name}?{}", self.endpoint, self.signature)
    }

    pub(crate) fn connection_string(&self) -> String {
        format!("QueueEndpoint={};SharedAccessSignature={}", self.endpoint, self.signature)
    }

    /// A row of the table.
    pub(crate) fn row(&self, contender: &str) -> String {
        format!("{}: {contender}", self.name)
    }
}

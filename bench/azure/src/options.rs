//! How much to measure.

use clap::Parser;

use crate::server::Kind;

/// Measures queues on Azure Storage Queue beside the official crate used bare and beside Microsoft's clients.
///
/// Azurite is the one in BEZOAR_TEST_AZURITE; `cargo xtask bench azure` installs it.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// A tenth of the messages: for a first look, not for a claim.
    #[arg(long)]
    quick: bool,
    /// Leave out Microsoft's clients, which need the network on the first run.
    #[arg(long)]
    pub(crate) skip_peers: bool,
    /// How often each is measured; the median of the ratios counts.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Only one contender, to look into it. Nothing is compared.
    #[arg(long, value_enum)]
    pub(crate) contender: Option<Contender>,
    /// Only one of the servers.
    #[arg(long, value_enum)]
    pub(crate) only: Option<Kind>,
}

/// Who can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Contender {
    /// Ours.
    Bezoar,
    /// The official crate.
    Bare,
}

impl Options {
    pub(crate) fn wants(&self, contender: Contender) -> bool {
        self.contender.is_none_or(|it| it == contender)
    }

    /// How many messages we and the limit get, for some seconds of work.
    pub(crate) fn messages(&self, server: Kind) -> u64 {
        self.share(match server {
            Kind::Azurite => 1_920,
            Kind::Stub => 19_200,
        })
    }

    /// How many messages Microsoft's clients get: they are slower.
    pub(crate) fn messages_of_peers(&self) -> u64 {
        self.share(960)
    }

    fn share(&self, messages: u64) -> u64 {
        if self.quick { messages / 10 } else { messages }
    }
}

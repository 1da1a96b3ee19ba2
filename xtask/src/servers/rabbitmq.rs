//! A RabbitMQ broker that many tests share.

use std::path::{Path, PathBuf};

use anyhow::Result;
use test_support::rabbitmq::BrokerSetup;

use super::debian;

/// Where a RabbitMQ is installed.
pub(crate) struct Installation {
    /// A folder with a system of its own; `/` is this machine.
    system: PathBuf,
}

impl Installation {
    /// The version of this machine's distribution.
    pub(crate) fn of_this_machine() -> Self {
        Self { system: "/".into() }
    }

    /// RabbitMQ 4.0, downloaded if it is missing. Fails where that is not possible.
    pub(crate) fn four(root: &Path) -> Result<Self> {
        Ok(Self { system: debian::with_rabbitmq(root)? })
    }

    /// The environment variable by which tests find the installation, to start brokers of their own.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        ("BEZOAR_TEST_RABBITMQ_ROOT", self.system.display().to_string())
    }

    fn setup(&self, root: &Path) -> BrokerSetup {
        let name = format!("rabbitmq-{}", std::process::id());
        let folder = match self.system == Path::new("/") {
            true => root.join("target/servers").join(name),
            false => Path::new("/tmp").join(name),
        };
        BrokerSetup { system: self.system.clone(), ..BrokerSetup::new(folder) }
    }
}

/// A broker that lives as long as this value.
pub(crate) struct RabbitMq {
    broker: test_support::rabbitmq::RabbitMq,
}

impl RabbitMq {
    /// Starts an empty broker, and waits until it answers.
    pub(crate) fn start(root: &Path, installation: &Installation) -> Result<Self> {
        let broker = test_support::rabbitmq::RabbitMq::start(installation.setup(root))?;
        Ok(Self { broker })
    }

    /// The environment variables by which tests find the broker.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("BEZOAR_TEST_AMQP", self.broker.url()),
            ("BEZOAR_TEST_AMQP_MANAGEMENT", self.broker.management_url()),
            ("BEZOAR_TEST_RABBITMQ_ROOT", self.broker.setup().system.display().to_string()),
        ]
    }
}

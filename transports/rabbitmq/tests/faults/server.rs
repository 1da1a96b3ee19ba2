//! A private broker, to be killed and started again with its data.

use std::path::Path;

use test_support::rabbitmq::{BrokerSetup, RabbitMq};
use tokio::{
    sync::{Mutex, MutexGuard},
    task::block_in_place,
};

/// One broker at a time: several would slow each other down.
static TURN: Mutex<()> = Mutex::const_new(());

/// A broker that lives as long as this value.
pub(crate) struct Server {
    broker: RabbitMq,
    _turn: MutexGuard<'static, ()>,
}

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        let turn = TURN.lock().await;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let setup = BrokerSetup::new(folder.join(format!("{name}-{}", std::process::id())));
        let broker = block_in_place(|| RabbitMq::start(setup)).unwrap();
        Self { broker, _turn: turn }
    }

    pub(crate) fn url(&self) -> String {
        self.broker.url()
    }

    pub(crate) fn address(&self) -> String {
        self.broker.address()
    }

    /// Kills the broker at once.
    pub(crate) fn kill(&mut self) {
        self.broker.kill();
    }

    /// Starts the broker again, and waits until it answers.
    pub(crate) fn restart(&mut self) {
        block_in_place(|| self.broker.restart()).unwrap();
    }

    /// Runs `rabbitmqctl`.
    pub(crate) fn control(&self, arguments: &[&str]) {
        block_in_place(|| self.broker.control(arguments)).unwrap();
    }
}

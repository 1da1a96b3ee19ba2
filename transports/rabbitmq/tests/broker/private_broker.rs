//! A broker for one test alone: with TLS, or to raise an alarm on.

use std::path::Path;

use test_support::rabbitmq::{BrokerSetup, RabbitMq};
use tokio::task::block_in_place;

pub(crate) fn start() -> RabbitMq {
    block_in_place(|| RabbitMq::start(setup())).unwrap()
}

/// A broker that listens for TLS; `make_certificates` is given the folder for them.
pub(crate) fn start_with_tls(make_certificates: impl FnOnce(&Path)) -> RabbitMq {
    let setup = BrokerSetup { tls: true, ..setup() };
    std::fs::create_dir_all(setup.outside()).unwrap();
    make_certificates(&setup.outside());
    block_in_place(|| RabbitMq::start(setup)).unwrap()
}

fn setup() -> BrokerSetup {
    BrokerSetup::under_test("broker")
}

//! Servers for a whole test run: private, on free ports, with their data under `target/`.

mod azurite;
mod debian;
mod rabbitmq;

pub(crate) use azurite::azurite;
pub(crate) use rabbitmq::{Installation, RabbitMq};

//! Servers that tests start for themselves: private, on free ports, with their data under `target/`.

mod debian;
mod ports;
mod rabbitmq;

pub(crate) use rabbitmq::{Installation, RabbitMq};

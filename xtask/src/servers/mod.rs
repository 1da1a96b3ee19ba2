//! Servers for a whole test run: private, on free ports, with their data under `target/`.

mod azurite;
mod debian;
pub(crate) mod postgres;
mod rabbitmq;

pub(crate) use azurite::azurite;
pub(crate) use postgres::PostgresServer;
pub(crate) use rabbitmq::{Installation, RabbitMq};

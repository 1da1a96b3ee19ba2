//! Servers and proxies that tests start. Nothing here is part of a release.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`rabbitmq`] | a private RabbitMQ broker: started, awaited on every port, killed, restarted |
//! | [`rabbitmq_cluster`] | three such brokers as a cluster, whose nodes are killed one by one |
//! | [`azurite`] | a private Azurite, the emulator of Azure Storage |
//! | [`postgres`] | a private PostgreSQL server, killed and restarted, and a PgBouncer in front of it |
//! | [`tcp_proxy`] | a TCP proxy whose connections can be cut, stalled, half closed or rewritten |
//! | [`certificates`] | certificates for tests with TLS |
//! | [`ports`] | free TCP ports |

pub mod azurite;
pub mod certificates;
pub mod ports;
pub mod postgres;
pub mod rabbitmq;
pub mod rabbitmq_cluster;
pub mod tcp_proxy;

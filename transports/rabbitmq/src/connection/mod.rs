//! Connections to the broker: the address, TLS, and connecting again after a loss.

pub(crate) mod address;
pub(crate) mod broker_connection;
pub(crate) mod consumer_connection;
pub(crate) mod lapin_logging;
pub(crate) mod tls;

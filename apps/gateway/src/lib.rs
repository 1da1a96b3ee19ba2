//! The gateway: messages from queues, delivered to HTTP endpoints.

pub mod config;
pub mod endpoint;

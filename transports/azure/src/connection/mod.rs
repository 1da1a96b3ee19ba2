//! Reaching the account: who signs in and how, one method per request, and the names of queues.

pub(crate) mod account;
pub(crate) mod blob_container;
pub(crate) mod identity;
pub(crate) mod queue_client;
pub(crate) mod queue_name;
pub(crate) mod service;
pub(crate) mod shared_key;
mod xml;

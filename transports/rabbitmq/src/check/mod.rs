//! `validate`: what is wrong with a queue, its topology and its broker.

pub(crate) mod binding_routes;
pub(crate) mod findings;
pub(crate) mod topology_check;

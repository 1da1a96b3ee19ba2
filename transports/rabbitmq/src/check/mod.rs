//! `validate`: what is wrong with a queue, its topology and its broker.

use futures_util::{StreamExt as _, stream};

pub(crate) mod binding_routes;
pub(crate) mod declared;
pub(crate) mod findings;
pub(crate) mod harmful_policies;
pub(crate) mod inspection;
pub(crate) mod leaders;
pub(crate) mod missing_bindings;
pub(crate) mod overdue;
mod permission_probes;
pub(crate) mod permissions;
pub(crate) mod shared_check;
pub(crate) mod topology_check;

/// The operation that errors name.
pub(crate) const VALIDATE: &str = "validate";
/// How many requests are under way at once, as many as the connection keeps idle channels for.
const CONCURRENCY: usize = 8;

/// Sends requests, several at the same time. The answers are in the order of the requests.
async fn answers<F: Future>(requests: Vec<F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(CONCURRENCY).collect().await
}

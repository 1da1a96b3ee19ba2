//! Shell completions that know the names of the running gateway: queues, routes, causes, ids.

use std::{future::Future, time::Duration};

use clap_complete::{CompletionCandidate, engine::ArgValueCandidates};
use serde_json::Value;
use tokio::{runtime, time::timeout};

use crate::{
    client::{ApiClient, Connection},
    listing,
};

/// Nobody waits for a completion: without an answer in time, nothing is suggested.
const PATIENCE: Duration = Duration::from_millis(800);

/// The names of queues.
pub(crate) fn queues() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/v1/queues", "/queue", None))
}

/// The names of routes.
pub(crate) fn routes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/v1/queues", "/route/name", Some("/route/to")))
}

/// The ids of causes, with their titles.
pub(crate) fn causes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/v1/causes?limit=100", "/id", Some("/title")))
}

/// The ids of the newest dead letters, with their reasons.
pub(crate) fn dead_letters() -> ArgValueCandidates {
    ArgValueCandidates::new(|| names("/v1/dead-letters?limit=100", "/id", Some("/reason")))
}

/// The ids of the newest replays and discards, with their reasons.
pub(crate) fn operations() -> ArgValueCandidates {
    let lists = ["/v1/replays", "/v1/discards"];
    ArgValueCandidates::new(move || {
        lists.into_iter().flat_map(|list| names(list, "/id", Some("/reason"))).collect()
    })
}

/// What the gateway lists there: one member of each object, and another to describe it.
fn names(path: &str, name: &str, about: Option<&str>) -> Vec<CompletionCandidate> {
    let listed = ask(|client| async move { client.get(path).await.ok()?.parse::<Value>().ok() });
    let candidate = |item: &Value| {
        let text = |pointer| item.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let about = about.and_then(text).map(|about| about.into());
        Some(CompletionCandidate::new(text(name)?).help(about))
    };
    listed.iter().flat_map(listing::items).filter_map(candidate).collect()
}

/// Asks the gateway that a command in this folder would talk to.
fn ask<T, F: Future<Output = Option<T>>>(question: impl FnOnce(ApiClient) -> F) -> Option<T> {
    let client = Connection::of_environment().client().ok()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { timeout(PATIENCE, question(client)).await.ok()? })
}

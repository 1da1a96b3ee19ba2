//! Who did what.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Problem, caller::Caller, views};
use crate::{app::App, config::Role};

/// The rows of a page, unless told otherwise, and at most.
const PAGE: (u32, u32) = (100, 1_000);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    after: Option<u64>,
    limit: Option<u32>,
}

/// The log in order, with the hashes that chain it and its head as it is kept apart.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    page: Result<Query<AuditQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    caller.needs_everywhere(Role::Operator)?;
    let Query(page) = page.map_err(|_| {
        Problem::bad_request("the parameters are after (a number) and limit (from 1)")
    })?;
    let limit = page.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let (entries, head) = app.catalogue().audit(page.after.unwrap_or(0), limit).await?;
    let next = (entries.len() == limit as usize).then(|| entries.last().map(|it| it.number));
    Ok(Json(json!({
        "entries": entries.iter().map(views::audit).collect::<Vec<_>>(),
        "next": next.flatten(),
        "head": { "count": head.count, "hash": head.hash.to_string() },
    })))
}

//! `/v1/audit`: the audit log.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Problem, caller::Caller, views};
use crate::{app::App, config::Role};

/// The default and the maximum page size.
const PAGE: (u32, u32) = (100, 1_000);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    after: Option<u64>,
    limit: Option<u32>,
}

/// Lists the log in order, with its hash chain and the separately stored head.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    page: Result<Query<AuditQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, Problem> {
    caller.needs_everywhere(Role::Operator)?;
    let Query(page) = page.map_err(|_| {
        Problem::bad_request("invalid query: after must be a number, limit a number from 1")
    })?;
    let limit = page.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let noted = app.audit_anchor.noted(); // first, so that the log is at least as long
    let (entries, head) = app.catalogue().audit(page.after.unwrap_or(0), limit).await?;
    let next = (entries.len() == limit as usize).then(|| entries.last().map(|it| it.number));
    Ok(Json(json!({
        "entries": entries.iter().map(views::audit).collect::<Vec<_>>(),
        "next": next.flatten(),
        "head": { "count": head.count, "hash": head.hash.to_string() },
        "noted": noted.map(|noted| json!({ "count": noted.count, "hash": noted.hash })),
    })))
}

//! `/v1/dead-letters`: listed without sensitive content, revealed with a reason, edited.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bezoar::{
    DeadLetterId,
    catalogue::{DeadLetterRecord, ListRequest, Verb},
    ops::{Edit, Edited},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{
    Problem, caller::Caller, filter, filter::QueryPairs, input, input::Input, segment::Segment,
    views,
};
use crate::{app::App, config::Role};

/// The default and the maximum page size.
const PAGE: (u32, u32) = (100, 1_000);

pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<Value>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (page, pairs) = paged(query)?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let filter = filter::from_pairs(pairs, &caller, &app)?;
    app.covers(&filter, |queue| caller.sees(queue)).await?;
    let rows = app.catalogue().list(&filter, &page).await?;
    let next = (rows.len() == page.limit as usize)
        .then(|| rows.last().map(|row| row.position().to_string()));
    Ok(Json(json!({
        "dead_letters": rows.iter().map(views::entry).collect::<Vec<_>>(),
        "next": next.flatten(),
        "matching": views::count(app.catalogue().count(&filter).await?),
    })))
}

/// Splits the query into paging and filter parameters.
fn paged(query: QueryPairs) -> Result<(ListRequest, Vec<(String, String)>), Problem> {
    let (paging, rest): (Vec<_>, Vec<_>) =
        filter::pairs(query)?.into_iter().partition(|(name, _)| name == "limit" || name == "after");
    let mut page = ListRequest { after: None, limit: PAGE.0 };
    for (name, value) in paging {
        match name.as_str() {
            "limit" => page.limit = filter::limit(&value, PAGE.1)?,
            _ => page.after = Some(value.parse()?),
        }
    }
    Ok((page, rest))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<Json<Value>, Problem> {
    Ok(Json(views::record(&seen(&app, &caller, &id, Role::Viewer).await?)))
}

/// A dead letter that the caller may see; others are reported as not found.
async fn seen(
    app: &App,
    caller: &Caller,
    id: &str,
    role: Role,
) -> Result<DeadLetterRecord, Problem> {
    caller.needs(role, None)?;
    let id: DeadLetterId = id.parse()?;
    let record = app.catalogue().record(id).await?;
    if !caller.sees(&record.entry.queue) {
        return Err(bezoar::catalogue::CatalogueError::NoDeadLetter(id).into());
    }
    Ok(record)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reveal {
    reason: String,
    #[serde(default = "only_the_body")]
    what: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Body,
    Headers,
    Details,
}

fn only_the_body() -> Vec<Part> {
    vec![Part::Body]
}

/// Reveals sensitive content, after the audit log has recorded who asked and why.
pub(super) async fn reveal(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    Input(wanted): Input<Reveal>,
) -> Result<Json<Value>, Problem> {
    let record = seen(&app, &caller, &id, Role::Operator).await?;
    let reason = input::reason(&wanted.reason)?;
    if wanted.what.is_empty() {
        return Err(Problem::bad_request("what must be a list of body, headers, details"));
    }
    let words: Vec<_> = wanted.what.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
    let target = format!("dead letter {}: {}", record.entry.id, words.join(", "));
    app.catalogue().log(&caller.action(Verb::Reveal, target, reason)).await?;
    let mut revealed = json!({ "id": record.entry.id.to_string() });
    for part in wanted.what {
        part.add(&record, &mut revealed);
    }
    Ok(Json(revealed))
}

impl Part {
    fn add(self, record: &DeadLetterRecord, revealed: &mut Value) {
        let message = &record.message;
        match self {
            Self::Body => {
                let body = message.body.reveal();
                revealed["content_type"] =
                    message.content_type.as_ref().map(|it| it.as_str()).into();
                revealed["body_base64"] = STANDARD.encode(body).into();
            }
            Self::Headers => {
                let headers = message.headers.iter();
                revealed["headers"] = headers
                    .map(|(name, value)| (name.clone(), Value::from(value.reveal().clone())))
                    .collect();
            }
            Self::Details => {
                let history = message.ledger.history().iter();
                revealed["details"] =
                    history.map(|attempt| Value::from(attempt.detail.reveal().clone())).collect();
            }
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditInput {
    reason: String,
    body_base64: Option<String>,
    patch: Option<Value>,
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
}

/// Creates a new version; the original is kept.
pub(super) async fn edit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    Input(wanted): Input<EditInput>,
) -> Result<Json<Value>, Problem> {
    let record = seen(&app, &caller, &id, Role::Admin).await?;
    let reason = input::reason(&wanted.reason)?;
    let needs_approval = app.edits(&record.entry.queue)?;
    let DeadLetterRecord { entry, message, .. } = record;
    let limit = app.max_body_bytes();
    // Decoding, patching and hashing a large body would hold up everything else on this thread.
    let edited = spawn_blocking(move || -> Result<Edited, Problem> {
        Ok(wanted.edit()?.apply(&message, limit)?)
    });
    let edited = edited.await.map_err(|_| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the edit was aborted")
    })??;
    let target = format!("dead letter {}: {}", entry.id, edited.summary);
    let action = caller.action(Verb::Edit, target, reason);
    let made = app.catalogue().edit(entry.id, edited.message, needs_approval, &action).await?;
    Ok(Json(views::entry(&made)))
}

impl EditInput {
    fn edit(self) -> Result<Edit, Problem> {
        let body = self.body_base64.map(|text| STANDARD.decode(text)).transpose();
        let body = body.map_err(|_| Problem::bad_request("body_base64 is not valid base64"))?;
        let patch = self.patch.map(serde_json::from_value).transpose();
        let patch =
            patch.map_err(|_| Problem::bad_request("patch is not a JSON patch (RFC 6902)"))?;
        let headers = self.headers.into_iter().collect();
        Ok(Edit { body: body.map(Into::into), patch, headers })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Approval {
    reason: String,
}

/// Approves an edited version that someone else created.
pub(super) async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    Input(approval): Input<Approval>,
) -> Result<Json<Value>, Problem> {
    let record = seen(&app, &caller, &id, Role::Admin).await?;
    let reason = input::reason(&approval.reason)?;
    let target = format!("dead letter {}", record.entry.id);
    let action = caller.action(Verb::Approve, target, reason);
    Ok(Json(views::entry(&app.catalogue().approve(record.entry.id, &action).await?)))
}

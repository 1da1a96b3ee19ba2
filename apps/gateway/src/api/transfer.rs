//! `/v1/exports` and `/v1/imports`: dead letters as JSON lines.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Query, Request, State},
    response::{IntoResponse, Response},
};
use bezoar::{
    DeadLetterId, Message,
    catalogue::{
        Catalogue, CatalogueError, DeadLetterRecord, DeadLetterState, Filter, ListRequest, Verb,
    },
    ops::{read_line, write_line},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{Problem, caller::Caller, filter, input, input::Input};
use crate::{
    api_types::{self, ExportRequest, Imported},
    app::App,
    config::Role,
    export_signature::ExportKey,
};

/// How many are listed at a time; each is read and sent separately, so that bodies do not accumulate in memory.
const PAGE: u32 = 200;
const NDJSON: &str = "application/x-ndjson";

/// Exports dead letters.
#[utoipa::path(
    post, path = "/v1/exports", operation_id = "export_dead_letters", tag = "dead letters",
    request_body = ExportRequest,
    responses((status = 200, description = "One dead letter per line, bodies included.", body = String, content_type = "application/x-ndjson"))
)]
pub(super) async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    wanted: Input<ExportRequest>,
) -> Result<Response, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Admin).await?;
    let reason = input::reason(&wanted.reason)?;
    let filter = filter::from_request(&wanted.filter, &caller, &app)?;
    app.covers(&filter, |queue| caller.sees(queue)).await?;
    let count = app.catalogue().count(&filter).await?;
    let about = if count.exact { "" } else { "at least " };
    let target = format!("{} ({about}{})", filter::words(&filter), count.count);
    let action = caller.action(Verb::Export, target, reason);
    app.catalogue().log(&action).await?;
    let signed = Signed { origin: app.origin(&action).await?, key: app.export_key(&action).await? };
    let lines = lines(app.catalogue().clone(), signed, filter);
    Ok(([(header::CONTENT_TYPE, NDJSON)], Body::from_stream(lines)).into_response())
}

/// Who signs an export.
struct Signed {
    origin: String,
    key: ExportKey,
}

/// The position of an export: a page of ids, whose dead letters are read one by one.
struct Walk {
    catalogue: Arc<dyn Catalogue>,
    signed: Signed,
    filter: Filter,
    page: ListRequest,
    ids: Vec<DeadLetterId>,
}

fn lines(
    catalogue: Arc<dyn Catalogue>,
    signed: Signed,
    filter: Filter,
) -> impl Stream<Item = Result<Bytes, Problem>> {
    let page = ListRequest { after: None, limit: PAGE };
    let walk = Walk { catalogue, signed, filter, page, ids: Vec::new() };
    stream::try_unfold(
        walk,
        |mut walk| async move { Ok(walk.next().await?.map(|line| (line, walk))) },
    )
}

impl Walk {
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            if let Some(id) = self.ids.pop() {
                let record = match self.catalogue.record(id).await {
                    // It was replayed or discarded in the meantime.
                    Err(error) if is_gone(&error) => continue,
                    record => record?,
                };
                let line = write_line(&self.signed.origin, &record)
                    .map_err(|_| Problem::bad_request(format!("cannot export dead letter {id}")))?;
                return Ok(Some(format!("{}\n", self.signed.key.signed(&line)).into()));
            }
            let rows = self.catalogue.list(&self.filter, &self.page).await?;
            let Some(last) = rows.last() else { return Ok(None) };
            self.page.after = Some(last.position());
            self.ids = rows.iter().rev().map(|row| row.id).collect();
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ImportQuery {
    /// The reason, recorded in the audit log.
    #[param(min_length = 1, max_length = 500, pattern = "^[!-~]+$")]
    reason: String,
}

/// Imports dead letters: all lines or none. An invalid line is reported with its number.
#[utoipa::path(
    post, path = "/v1/imports", operation_id = "import_dead_letters", tag = "dead letters",
    params(ImportQuery),
    request_body(content = String, description = "What an export wrote.", content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "Success.", body = Imported),
        (status = 422, description = "A line is invalid.", body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn import(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: Result<Query<ImportQuery>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Result<Json<Imported>, Problem> {
    caller.needs(Role::Admin, None)?;
    let Query(query) = query
        .map_err(|_| Problem::bad_request("the only parameter is reason, and it is required"))?;
    let reason = input::reason(&query.reason)?;
    let body = input::read_large(request.into_body(), &app).await?;
    let text = std::str::from_utf8(&body.bytes)
        .map_err(|_| Problem::bad_request("the request body is not UTF-8"))?;
    let (key, approval) = (app.known_export_key().await?, app.edits_need_approval());
    let is_unchanged = |line: &str| key.as_ref().is_some_and(|key| key.has_signed(line));
    let mut records: Vec<(String, DeadLetterRecord)> = Vec::new();
    let mut unapproved = 0;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut read = read_line(line).map_err(|error| {
            let line = number + 1;
            let detail = format!("line {line}: {error}; nothing was imported");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-line", detail)
                .with(|it| it.line = Some(line as u64))
        })?;
        caller.needs(Role::Admin, Some(&read.1.entry.queue))?;
        app.known(&read.1.entry.queue, |queue| caller.sees(queue))?;
        // What was changed in it is unknown, so it is treated as an edit.
        if approval && !is_unchanged(line) {
            read.1.entry.state = DeadLetterState::Unapproved;
            unapproved += 1;
        }
        records.push(read);
    }
    let asked = records.len();
    let target = match unapproved {
        0 => format!("{asked} dead letters"),
        _ => format!("{asked} dead letters, {unapproved} of them to be approved"),
    };
    let action = caller.action(Verb::Import, target, reason);
    let records = elsewhere(&app, records, &app.origin(&action).await?).await?;
    let imported = app.catalogue().import(records, &action).await?;
    Ok(Json(Imported { imported, known_already: asked as u64 - imported }))
}

/// Without those that this store exported itself and still has. Another message under the stamp of one of them is a
/// conflict, as it is under the stamp of one that was imported.
async fn elsewhere(
    app: &App,
    records: Vec<(String, DeadLetterRecord)>,
    origin: &str,
) -> Result<Vec<(String, DeadLetterRecord)>, Problem> {
    let mut missing = Vec::with_capacity(records.len());
    for (stamp, record) in records {
        let ours = stamp.strip_prefix(origin).and_then(|rest| rest.strip_prefix('/')?.parse().ok());
        let known = match ours {
            Some(id) => match app.catalogue().record(id).await {
                Err(error) if is_gone(&error) => false,
                ours => is_copy(&ours?.message, &record.message).then_some(true).ok_or_else(|| {
                    CatalogueError::Conflict(format!(
                        "dead letter {id} is in this store with other content; nothing was imported"
                    ))
                })?,
            },
            None => false,
        };
        if !known {
            missing.push((stamp, record));
        }
    }
    Ok(missing)
}

/// Whether a dead letter is no longer in the store, whatever became of it.
fn is_gone(error: &CatalogueError) -> bool {
    matches!(
        error,
        CatalogueError::NoDeadLetter(_)
            | CatalogueError::Replayed { .. }
            | CatalogueError::Discarded { .. }
    )
}

/// Whether both are the same message. Its history may differ: another version may have written the export.
fn is_copy(ours: &Message, theirs: &Message) -> bool {
    ours.id == theirs.id
        && ours.message_type == theirs.message_type
        && ours.headers == theirs.headers
        && ours.body == theirs.body
}

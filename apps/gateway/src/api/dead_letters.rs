//! `/v1/dead-letters`: listed without sensitive content, revealed with a reason, edited.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State, response::IntoResponse};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bezoar::{
    DeadLetterId, FailedTry, Message,
    catalogue::{DeadLetterRecord, ListPosition, ListRequest, Verb},
    ops::{Edit, Edited},
};
use http::{HeaderMap, StatusCode, header};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    Problem, body,
    caller::Caller,
    filter,
    filter::QueryPairs,
    input,
    input::Input,
    parameters::{IdPath, Paging},
    segment::Segment,
};
use crate::{
    api_types::{
        self, DeadLetterDetails, DeadLetterFilter, DeadLetterPage, DeadLetterSummary, EditRequest,
        Hidden, ReasonRequest, RevealPart, RevealRequest, Revealed,
    },
    app::App,
    config::Role,
};

/// The default and the maximum page size.
const PAGE: (u32, u32) = (100, 1_000);

/// Lists dead letters without their content, newest first.
#[utoipa::path(
    get, path = "/v1/dead-letters", operation_id = "list_dead_letters", tag = "dead letters",
    params(DeadLetterFilter, Paging),
    responses((status = 200, description = "Success.", body = DeadLetterPage))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<DeadLetterPage>, Problem> {
    caller.needs(Role::Viewer, None)?;
    let (page, pairs) = paged(query)?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let filter = filter::from_pairs(pairs, &caller, &app)?;
    app.covers(&filter, |queue| caller.sees(queue)).await?;
    let rows = app.catalogue().list(&filter, &page).await?;
    let next = (rows.len() == page.limit as usize)
        .then(|| rows.last().map(|row| row.position().to_string()));
    Ok(Json(DeadLetterPage {
        items: rows.iter().map(Into::into).collect(),
        next: next.flatten(),
        matching: app.catalogue().count(&filter).await?.into(),
    }))
}

/// Splits the query into paging and filter parameters.
fn paged(query: QueryPairs) -> Result<(ListRequest, Vec<(String, String)>), Problem> {
    let (paging, rest): (Vec<_>, Vec<_>) =
        filter::pairs(query)?.into_iter().partition(|(name, _)| name == "limit" || name == "after");
    let mut page = ListRequest { after: None, limit: PAGE.0 };
    for (name, value) in paging {
        match name.as_str() {
            "limit" => page.limit = filter::limit(&value, PAGE.1)?,
            _ => page.after = Some(value.parse::<ListPosition>().map_err(Problem::unknown)?),
        }
    }
    Ok((page, rest))
}

/// Returns a dead letter with the history of its attempts, without its content.
#[utoipa::path(
    get, path = "/v1/dead-letters/{id}", operation_id = "get_dead_letter", tag = "dead letters",
    params(IdPath),
    responses((status = 200, description = "Success.", body = DeadLetterDetails,
               headers(("etag" = String, description = "Its version, to pass as If-Match with an edit."))))
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
) -> Result<impl IntoResponse, Problem> {
    let record = seen(&app, &caller, &id, Role::Viewer).await?;
    Ok(([(header::ETAG, etag(&record))], Json(DeadLetterDetails::from(&record))))
}

/// Changes whenever the dead letter is edited, approved, or part of another operation.
fn etag(record: &DeadLetterRecord) -> String {
    let DeadLetterRecord { entry, versions, operations, .. } = record;
    format!("\"{}-{}-{}-{}\"", entry.id, entry.state.as_str(), versions.len(), operations.len())
}

/// Fails if the client edits another version than there is now.
fn matches(headers: &HeaderMap, record: &DeadLetterRecord) -> Result<(), Problem> {
    let Some(wanted) = headers.get(header::IF_MATCH) else { return Ok(()) };
    let is_one = |tag: &str| matches!(tag.trim(), "*") || tag.trim() == etag(record);
    if wanted.to_str().is_ok_and(|tags| tags.split(',').any(is_one)) {
        return Ok(());
    }
    let detail = "the dead letter has changed since it was read; read it again";
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail))
}

/// A dead letter that the caller may see, without its body; others are reported as not found.
async fn seen(
    app: &App,
    caller: &Caller,
    id: &str,
    role: Role,
) -> Result<DeadLetterRecord, Problem> {
    caller.needs(role, None)?;
    let id = id.parse::<DeadLetterId>().map_err(Problem::unknown)?;
    let record = app.catalogue().record_without_body(id).await?;
    if !caller.sees(&record.entry.queue) {
        return Err(bezoar::catalogue::CatalogueError::NoDeadLetter(id).into());
    }
    Ok(record)
}

/// The same with its body.
async fn seen_whole(
    app: &App,
    caller: &Caller,
    id: &str,
    role: Role,
) -> Result<DeadLetterRecord, Problem> {
    let id = seen(app, caller, id, role).await?.entry.id;
    Ok(app.catalogue().record(id).await?)
}

/// Reveals sensitive content, after recording caller and reason in the audit log.
#[utoipa::path(
    post, path = "/v1/dead-letters/{id}/reveal", operation_id = "reveal_dead_letter", tag = "dead letters",
    params(IdPath), request_body = RevealRequest,
    responses((status = 200, description = "Success.", body = Revealed))
)]
pub(super) async fn reveal(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    wanted: Input<RevealRequest>,
) -> Result<Json<Revealed>, Problem> {
    let wanted = wanted.read(&app, &caller, Role::Operator).await?;
    let record = seen_whole(&app, &caller, &id, Role::Operator).await?;
    let reason = input::reason(&wanted.reason)?;
    if wanted.what.is_empty() {
        return Err(Problem::bad_request("what must be a list of body, headers, details"));
    }
    let words: Vec<_> = wanted.what.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
    let target = format!("dead letter {}: {}", record.entry.id, words.join(", "));
    app.catalogue().log(&caller.action(Verb::Reveal, target, reason)).await?;
    Ok(Json(revealed(&record, &wanted.what)))
}

fn revealed(record: &DeadLetterRecord, what: &[RevealPart]) -> Revealed {
    let (message, history) = (&record.message, record.message.ledger.history());
    let has = |part| what.contains(&part).then_some(());
    let header =
        |(name, value): (&String, &bezoar::HeaderValue)| (name.clone(), value.reveal().clone());
    let detail = |failed: &FailedTry| failed.detail.reveal().clone();
    Revealed {
        id: record.entry.id.to_string(),
        content_type: has(RevealPart::Body)
            .and_then(|()| Some(message.content_type.as_ref()?.to_string())),
        body_base64: has(RevealPart::Body).map(|()| STANDARD.encode(message.body.reveal()).into()),
        headers: has(RevealPart::Headers)
            .map(|()| message.headers.iter().map(header).collect::<BTreeMap<_, _>>().into()),
        details: has(RevealPart::Details)
            .map(|()| history.iter().map(detail).collect::<Vec<_>>().into()),
    }
}

/// The maximum size of a patch: an edit that changes more can replace the body.
const PATCH_LIMIT_BYTES: usize = 256 * 1024;
/// A body and a patch take many times their size while one is applied to the other, so that is done for one at a time.
static EDITING: Semaphore = Semaphore::const_new(1);

/// Makes an edited version, if dead_letters.editable allows it; the original is kept.
#[utoipa::path(
    post, path = "/v1/dead-letters/{id}/edits", operation_id = "edit_dead_letter", tag = "dead letters",
    params(IdPath, ("if-match" = Option<String>, Header, description = "The ETag of the version that is edited.")),
    request_body = EditRequest,
    responses(
        (status = 200, description = "The new version.", body = DeadLetterSummary),
        (status = 412, description = "It has changed in the meantime.", body = api_types::Problem, content_type = "application/problem+json"),
        (status = 422, description = "The change does not fit the message.", body = api_types::Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn edit(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    headers: HeaderMap,
    wanted: Input<EditRequest>,
) -> Result<Json<DeadLetterSummary>, Problem> {
    let (wanted, _memory) = wanted.read_with_body(&app, &caller, Role::Admin).await?;
    check_size(&wanted)?;
    let _turn = EDITING.acquire().await.map_err(|_| body::busy())?;
    let record = seen_whole(&app, &caller, &id, Role::Admin).await?;
    matches(&headers, &record)?;
    let reason = input::reason(&wanted.reason)?;
    let needs_approval = app.edits(&record.entry.queue)?;
    let DeadLetterRecord { entry, message, .. } = record;
    let limit = app.max_body_bytes();
    // Decoding, patching and hashing a large body would hold up everything else on this thread.
    let edited = spawn_blocking(move || -> Result<Edited, Problem> {
        Ok(edit_of(wanted)?.apply(&message, limit)?)
    });
    let edited = edited.await.map_err(|_| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the edit was aborted")
    })??;
    let target = format!("dead letter {}: {}", entry.id, edited.summary);
    let action = caller.action(Verb::Edit, target, reason);
    let made = app.catalogue().edit(entry.id, edited.message, needs_approval, &action).await?;
    Ok(Json((&made).into()))
}

/// What the members of an edit may have beside a body.
fn check_size(wanted: &EditRequest) -> Result<(), Problem> {
    let limit = PATCH_LIMIT_BYTES;
    if wanted.patch.as_ref().is_some_and(|patch| patch.reveal().get().len() > limit) {
        let detail =
            format!("the patch is larger than {limit} bytes; replace the whole body instead");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            .with(|it| it.limit_bytes = Some(limit as u64)));
    }
    // They were read up to the limit, so that it shows only in their number or their size.
    let value = |value: &Option<Hidden<String>>| value.as_ref().map_or(0, |it| it.reveal().len());
    let bytes: usize = wanted.headers.iter().map(|(name, it)| name.len() + value(it)).sum();
    let (most, most_bytes) = (Message::MAX_HEADERS, Message::MAX_HEADER_BYTES);
    if wanted.headers.len() > most || bytes > most_bytes {
        return Err(unfit(&format!(
            "headers: an edit changes at most {most} of them, with {most_bytes} bytes in all"
        )));
    }
    Ok(())
}

fn unfit(detail: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no-edit", detail)
}

fn edit_of(request: EditRequest) -> Result<Edit, Problem> {
    let body = request.body_base64.map(|text| STANDARD.decode(text.reveal())).transpose();
    let body = body.map_err(|_| Problem::bad_request("body_base64 is not valid base64"))?;
    let patch = request.patch.map(|patch| serde_json::from_str(patch.reveal().get()));
    let patch = patch.transpose().map_err(|_| unfit("patch is not a JSON patch (RFC 6902)"))?;
    let value =
        |(name, value): (String, Option<Hidden<String>>)| (name, value.map(Hidden::into_revealed));
    let headers = request.headers.into_iter().map(value).collect();
    Ok(Edit { body: body.map(Into::into), patch, headers })
}

/// Approves an edited version that someone else made.
#[utoipa::path(
    post, path = "/v1/dead-letters/{id}/approve", operation_id = "approve_dead_letter", tag = "dead letters",
    params(IdPath), request_body = ReasonRequest,
    responses((status = 200, description = "Success.", body = DeadLetterSummary))
)]
pub(super) async fn approve(
    State(app): State<Arc<App>>,
    caller: Caller,
    Segment(id): Segment,
    approval: Input<ReasonRequest>,
) -> Result<Json<DeadLetterSummary>, Problem> {
    let approval = approval.read(&app, &caller, Role::Admin).await?;
    let record = seen(&app, &caller, &id, Role::Admin).await?;
    let reason = input::reason(&approval.reason)?;
    let target = format!("dead letter {}", record.entry.id);
    let action = caller.action(Verb::Approve, target, reason);
    Ok(Json((&app.catalogue().approve(record.entry.id, &action).await?).into()))
}

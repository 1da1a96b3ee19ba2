//! `/v1/audit`: the audit log.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use axum::{Json, extract::State};
use bezoar::catalogue::{AuditEntry, AuditHead, CatalogueError, OperationId};
use jiff::Timestamp;
use utoipa::{IntoParams, ToSchema};

use super::{Problem, caller::Caller, filter, filter::QueryPairs};
use crate::{
    api_types::{AuditPage, AuditRecord, AuditedOutcome, RecordedHead},
    app::App,
    config::Role,
};

/// The default and the maximum page size.
const PAGE: (u32, u32) = (100, 1_000);
/// How many entries are read at a time, and how often, to find those that match.
const CHUNK: u32 = 1_000;
const CHUNKS: usize = 20;

/// Which entries to list.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// The maximum number of rows.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<u64>,
    /// Newest first unless given.
    #[param(inline)]
    order: Option<AuditOrder>,
    /// Only what this actor did.
    actor: Option<String>,
    /// Only this verb.
    verb: Option<String>,
    /// Only what was recorded at or after this time, or at most so long ago: 2h, 30m.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    since: Option<Timestamp>,
    /// Only what was recorded before this time, or longer ago than this: 2h, 30m.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,4}(ms|s|m|h|d)$")]
    until: Option<Timestamp>,
}

/// The order of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ToSchema)]
#[schema(rename_all = "snake_case")]
enum AuditOrder {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// Lists the audit log with its hash chain, and the separately stored head.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit_entries", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "Success.", body = AuditPage))
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    query: QueryPairs,
) -> Result<Json<AuditPage>, Problem> {
    caller.needs_everywhere(Role::Operator)?;
    let query = AuditQuery::read(query, app.now())?;
    let noted = app.audit_anchor.noted(); // first, so that the log is at least as long
    let (found, next, head) = match query.order.unwrap_or_default() {
        AuditOrder::NewestFirst => newest_first(&app, &query).await?,
        AuditOrder::OldestFirst => oldest_first(&app, &query).await?,
    };
    let mut items: Vec<AuditRecord> = found.iter().map(Into::into).collect();
    add_outcomes(&app, &mut items).await?;
    Ok(Json(AuditPage {
        items,
        next: next.map(|number| number.to_string()),
        head: (&head).into(),
        noted: noted.map(|noted| RecordedHead { count: noted.count, hash: noted.hash }),
    }))
}

/// Adds what came of the operations that entries are about. It is read from the operations and not logged, because the log
/// only grows, and an operation goes on after its entries were written.
async fn add_outcomes(app: &App, records: &mut [AuditRecord]) -> Result<(), Problem> {
    let mut known: HashMap<OperationId, Option<AuditedOutcome>> = HashMap::new();
    for record in records {
        let Some(id) = operation_of(&record.target) else { continue };
        if let Entry::Vacant(unknown) = known.entry(id) {
            let outcome = match app.catalogue().operation(id).await {
                Ok(operation) => Some((&operation).into()),
                Err(CatalogueError::NoOperation(_)) => None,
                Err(error) => return Err(error.into()),
            };
            unknown.insert(outcome);
        }
        record.outcome = known.get(&id).cloned().flatten();
    }
    Ok(())
}

/// The operation that an entry names at its beginning: `operation op_209aaw0b: pause`.
fn operation_of(target: &str) -> Option<OperationId> {
    let id = target.strip_prefix("operation ")?.split([':', ',']).next()?;
    id.parse().ok()
}

type Found = (Vec<AuditEntry>, Option<u64>, AuditHead);

async fn oldest_first(app: &App, query: &AuditQuery) -> Result<Found, Problem> {
    let (mut found, mut after) = (Vec::new(), query.after.unwrap_or(0));
    for _ in 0..CHUNKS {
        let (entries, head) = app.catalogue().audit(after, CHUNK).await?;
        let Some(last) = entries.last().map(|entry| entry.number) else {
            return Ok((found, None, head));
        };
        if let Some(number) = query.add(entries.into_iter(), &mut found) {
            return Ok((found, Some(number), head));
        }
        after = last;
    }
    let (_, head) = app.catalogue().audit(after, 1).await?;
    Ok((found, Some(after), head))
}

/// The log can only be read forwards, so it is read in chunks from its end.
async fn newest_first(app: &App, query: &AuditQuery) -> Result<Found, Problem> {
    let (_, head) = app.catalogue().audit(u64::MAX, 1).await?;
    let mut found = Vec::new();
    let mut before = query.after.unwrap_or(u64::MAX).min(head.count + 1);
    for _ in 0..CHUNKS {
        if before <= 1 {
            return Ok((found, None, head));
        }
        let after = before.saturating_sub(u64::from(CHUNK) + 1);
        let (entries, _) = app.catalogue().audit(after, CHUNK).await?;
        let entries = entries.into_iter().rev().filter(|entry| entry.number < before);
        if let Some(number) = query.add(entries, &mut found) {
            return Ok((found, Some(number), head));
        }
        before = after + 1;
    }
    Ok((found, Some(before), head))
}

impl AuditQuery {
    fn read(query: QueryPairs, now: Timestamp) -> Result<Self, Problem> {
        let mut read = Self::default();
        for (name, value) in filter::pairs(query)? {
            match name.as_str() {
                "limit" => read.limit = Some(filter::limit(&value, PAGE.1)?),
                "after" => read.after = Some(number(&value)?),
                "order" => read.order = Some(order(&value)?),
                "actor" => read.actor = Some(value),
                "verb" => read.verb = Some(value),
                "since" => read.since = Some(filter::moment("since", &value, now)?),
                "until" => read.until = Some(filter::moment("until", &value, now)?),
                _ => {
                    let known = "limit, after, order, actor, verb, since, until";
                    return Err(Problem::bad_request(format!(
                        "unknown parameter; known parameters: {known}"
                    )));
                }
            }
        }
        Ok(read)
    }

    /// Adds entries that match; returns the number of the last one if the page is full.
    fn add(
        &self,
        entries: impl Iterator<Item = AuditEntry>,
        found: &mut Vec<AuditEntry>,
    ) -> Option<u64> {
        let limit = self.limit.unwrap_or(PAGE.0) as usize;
        found.extend(entries.filter(|entry| self.matches(entry)).take(limit - found.len()));
        found.last().map(|entry| entry.number).filter(|_| found.len() == limit)
    }

    fn matches(&self, entry: &AuditEntry) -> bool {
        self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
            && self.verb.as_ref().is_none_or(|verb| *verb == entry.verb)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

fn number(text: &str) -> Result<u64, Problem> {
    filter::position(text)
        .ok_or_else(|| Problem::bad_request("after must be the number of an entry"))
}

fn order(text: &str) -> Result<AuditOrder, Problem> {
    match text {
        "newest_first" => Ok(AuditOrder::NewestFirst),
        "oldest_first" => Ok(AuditOrder::OldestFirst),
        _ => Err(Problem::bad_request("order must be newest_first or oldest_first")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_its_operation_first() {
        let id = OperationId::from_number(7);
        for target in
            [format!("operation {id}: run"), format!("operation {id}, 3 dead letters: run")]
        {
            assert_eq!(operation_of(&target), Some(id), "{target}");
        }
        for target in ["operation 7: run", "dead letter dl_e4295pe0: body", "operation", ""] {
            assert_eq!(operation_of(target), None, "{target}");
        }
    }
}

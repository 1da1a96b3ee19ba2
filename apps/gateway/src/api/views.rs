//! The JSON views of dead letters, causes and operations. Bodies, header values and error texts never appear in them.

use std::time::Duration;

use bezoar::{
    FailedTry, UncountedSummary,
    catalogue::{
        AuditEntry, Cause, Count, DeadLetterRecord, DeadLetterState, DeadLetterSummary, ItemState,
        Operation, OperationId, OperationItem, OperationKind, Rejection, ReplayIds,
    },
    rabbitmq::Origin,
};
use serde_json::{Value, json};

/// A dead letter in a list.
pub(super) fn entry(entry: &DeadLetterSummary) -> Value {
    let operation = match entry.state {
        DeadLetterState::Held(operation) => Some(operation.to_string()),
        _ => None,
    };
    json!({
        "id": entry.id.to_string(),
        "queue": entry.queue.as_str(),
        "message_id": entry.message_id.as_str(),
        "type": entry.message_type.as_str(),
        "correlation_id": entry.correlation_id.as_ref().map(|id| id.as_str()),
        "reason": entry.reason,
        "error": { "kind": entry.kind.as_str(), "code": entry.code.as_str() },
        "cause": entry.cause.as_str(),
        "attempts": entry.attempts,
        "replayed": entry.replayed,
        "body_bytes": entry.body_bytes,
        "time": entry.time.to_string(),
        "at": entry.died_at.to_string(),
        "arrived_at": entry.arrived_at.to_string(),
        "state": entry.state.as_str(),
        "operation": operation,
        "edited_from": entry.edited_from.map(|id| id.to_string()),
        "possible_copy_of": entry.possible_copy_of.map(|id| id.to_string()),
    })
}

/// How the headers begin that the transport on Azure Storage Queue adds to dead letters.
const OF_AZURE: &str = "bezoar-azure-";

/// A dead letter without its sensitive content.
pub(super) fn record(record: &DeadLetterRecord) -> Value {
    let message = &record.message;
    let header = |(name, value): (&String, &bezoar::HeaderValue)| json!({ "name": name, "bytes": value.len() });
    let mut all = entry(&record.entry);
    all["reason_code"] = record.reason.code().as_str().into();
    all["content_type"] = message.content_type.as_ref().map(|it| it.as_str()).into();
    all["causation_id"] = message.causation_id.as_ref().map(|id| id.as_str()).into();
    all["acquired"] = message.ledger.acquired.into();
    all["released"] = message.ledger.released.into();
    all["uncounted"] = message.ledger.uncounted.as_ref().map(uncounted).into();
    all["last_failure_at"] = message.ledger.last_failure_at().map(|at| at.to_string()).into();
    all["history"] = message.ledger.history().iter().map(failed_try).collect();
    all["origin"] = Origin::of(message).map(origin).into();
    let of_sender =
        |(name, _): &(&String, _)| !Origin::is_header(message, name) && !name.starts_with(OF_AZURE);
    all["headers"] = message.headers.iter().filter(of_sender).map(header).collect();
    all["lineage"] = record.versions.iter().map(|id| id.to_string()).collect();
    all["earlier"] = record.earlier.iter().map(|id| id.to_string()).collect();
    all["operations"] = record.operations.iter().map(|id| id.to_string()).collect();
    all
}

/// Where a message of a broker was published to.
fn origin(origin: Origin) -> Value {
    json!({
        "exchange": origin.exchange,
        "routing_key": origin.routing_key,
        "vhost": origin.vhost,
    })
}

/// Why a message was rejected, and every attempt before that.
pub(super) fn rejection(rejection: &Rejection) -> Value {
    let ledger = &rejection.ledger;
    json!({
        "queue": rejection.queue.as_str(),
        "message_id": rejection.message_id.as_str(),
        "type": rejection.message_type.as_str(),
        "correlation_id": rejection.correlation_id.as_ref().map(|id| id.as_str()),
        "at": rejection.at.to_string(),
        "reason": rejection.reason.to_string(),
        "reason_code": rejection.reason.code().as_str(),
        "attempts": ledger.failed,
        "replayed": ledger.replayed,
        "last_failure_at": ledger.last_failure_at().map(|at| at.to_string()),
        "uncounted": ledger.uncounted.as_ref().map(uncounted),
        "history": ledger.history().iter().map(failed_try).collect::<Vec<_>>(),
    })
}

/// Failures that did not use up a retry.
fn uncounted(summary: &UncountedSummary) -> Value {
    json!({
        "count": summary.count,
        "suspected": summary.suspected,
        "first": summary.first.to_string(),
        "last": summary.last.to_string(),
        "code": summary.code.as_str(),
    })
}

fn failed_try(failed: &FailedTry) -> Value {
    json!({
        "generation": failed.generation,
        "attempt": failed.attempt,
        "try": failed.try_number,
        "started_at": failed.started_at.to_string(),
        "failed_at": failed.failed_at().to_string(),
        "duration_ms": failed.duration.as_millis() as u64,
        "kind": failed.kind.as_str(),
        "code": failed.code.as_str(),
        "detail_bytes": failed.detail.len(),
    })
}

/// A count, and whether it is exact.
pub(super) fn count(count: Count) -> Value {
    json!({ "count": count.count, "exact": count.exact })
}

/// A cause.
pub(super) fn cause(cause: &Cause) -> Value {
    let note = cause
        .note
        .as_ref()
        .map(|(text, who, at)| json!({ "text": text, "who": who, "at": at.to_string() }));
    json!({
        "id": cause.id.as_str(),
        "title": cause.title(),
        "queue": cause.queue.as_str(),
        "type": cause.message_type.as_str(),
        "kind": cause.kind.as_str(),
        "code": cause.code.as_str(),
        "count": cause.count,
        "ever": cause.ever,
        "this_hour": cause.this_hour,
        "last_hour": cause.last_hour,
        "first_seen": cause.first_seen.to_string(),
        "last_seen": cause.last_seen.to_string(),
        "samples": cause.samples.iter().map(|id| id.to_string()).collect::<Vec<_>>(),
        "state": cause.state.as_str(),
        "note": note,
    })
}

/// A replay or discard, and how long it has been waiting for its canary.
pub(super) fn operation(operation: &Operation, waiting: Option<Duration>) -> Value {
    let queues: Vec<_> = operation
        .queues
        .iter()
        .map(|(queue, count)| json!({ "queue": queue.as_str(), "count": count }))
        .collect();
    let kind = match operation.kind {
        OperationKind::Replay { .. } => "replay",
        OperationKind::Discard => "discard",
    };
    let mut shown = json!({
        "id": operation.id.to_string(),
        "task": kind,
        "state": operation.state.as_str(),
        "who": operation.actor,
        "reason": operation.reason,
        "planned_at": operation.planned_at.to_string(),
        "ended_at": operation.ended_at.map(|at| at.to_string()),
        "stopped": operation.stopped,
        "total": operation.total,
        "refused": operation.refused,
        "held": held(&operation.held),
        "done": operation.done,
        "queues": queues,
    });
    if let OperationKind::Replay { canary, per_second, stop_after, ids } = operation.kind {
        shown["completed"] = operation.completed.into();
        shown["failed"] = operation.failed.into();
        shown["in_flight"] = operation.in_flight().into();
        shown["canary"] = canary.into();
        shown["canary_waiting_seconds"] = waiting.map(|waiting| waiting.as_secs_f64()).into();
        shown["rate"] = per_second.into();
        shown["stop_after"] = stop_after.into();
        shown["new_ids"] = (ids == ReplayIds::New).into();
    }
    shown
}

/// How many dead letters which other operations hold.
pub(super) fn held(held: &[(OperationId, u64)]) -> Value {
    held.iter().map(|(id, count)| json!({ "operation": id.to_string(), "count": count })).collect()
}

/// One message of a replay or discard.
pub(super) fn item(item: &OperationItem) -> Value {
    let (again, cause) = match &item.state {
        ItemState::Failed { again, cause } => (Some(again.to_string()), Some(cause.as_str())),
        _ => (None, None),
    };
    json!({
        "place": item.place,
        "dead_letter": item.dead_letter.to_string(),
        "message_id": item.message_id.as_str(),
        "queue": item.queue.as_str(),
        "state": item.state.as_str(),
        "again": again,
        "cause": cause,
    })
}

/// An entry of the audit log.
pub(super) fn audit(entry: &AuditEntry) -> Value {
    json!({
        "number": entry.number,
        "at": entry.at.to_string(),
        "who": entry.actor,
        "from": entry.address,
        "verb": entry.verb,
        "target": entry.target,
        "why": entry.reason,
        "hash": entry.hash.to_string(),
    })
}

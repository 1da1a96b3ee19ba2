//! `/openapi.json`: describes the API, for people and code generators.

use axum::Json;
use serde_json::{Value, json};

pub(super) async fn openapi() -> Json<Value> {
    Json(description())
}

/// The filter parameters of lists.
const FILTER: &str = "?queue=&route=&type=&kind=&code=&cause=&correlation_id=&message_id=&since=&until=&min_attempts=&replayed=&state=";

fn description() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Bezoar", "version": env!("CARGO_PKG_VERSION"),
                  "description": "Accepts messages, delivers them to HTTP endpoints, and manages dead letters." },
        "security": [{ "token": [] }],
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
                        "schemas": { "Problem": problem() } },
        "paths": paths(),
    })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "application/problem+json (RFC 9457)",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string", "examples": ["urn:bezoar:problem:too-large"] },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
        },
    })
}

fn paths() -> Value {
    let queue = parameter("queue", "path", "Name of the queue as one segment: hospital%2Fresults.");
    let route = parameter("route", "path", "Name of the route.");
    let id = parameter("id", "path", "Id of the dead letter: dl_g4jmah4z.");
    let operation = parameter("id", "path", "Id of the replay or discard: op_209aaw0b.");
    json!({
        "/v1/queues": { "get": get("Message counts and route states; unknown values are null.") },
        "/v1/queues/{queue}/messages": { "parameters": [queue], "post": {
            "summary": "Accepts a message; 202 means it is synced to disk.",
            "parameters": [
                parameter("Bezoar-Id", "header", "A message with the same id is accepted once within 24 hours."),
                parameter("Bezoar-Type", "header", "Message type, passed on to the endpoint or used to choose a handler; `message` if absent."),
                parameter("Bezoar-Correlation-Id", "header", "Connects related messages."),
                parameter("Bezoar-Causation-Id", "header", "Id of the message that caused this one."),
                parameter("Bezoar-Delay", "header", "Delay before delivery: 30s, 5m, 1h30m."),
            ],
            "requestBody": { "content": { "*/*": { "schema": {} } } },
            "responses": responses("202", "Accepted: {\"id\": …}", &["400", "401", "403", "404", "408", "413", "503", "507"]),
        } },
        "/v1/queues/{queue}/batches": { "parameters": [queue], "post": {
            "summary": "Accepts up to 10,000 messages; returns one result per message, in order.",
            "requestBody": { "content": { "application/x-ndjson": { "schema": item() },
                                          "application/json": { "schema": { "type": "array", "items": item() } } } },
            "responses": responses("202", "{\"accepted\", \"refused\", \"results\"}", &["400", "401", "403", "404", "413", "503"]),
        } },
        "/v1/queues/{queue}/replay": { "parameters": [queue], "post": send(
            "Sends all dead letters that are on the queue's broker back to where they came from.",
            json!({ "reason": "string" })) },
        "/v1/queues/{queue}/discard": { "parameters": [queue], "post": send(
            "Removes all dead letters that are on the queue's broker for good; how many must be known.",
            json!({ "reason": "string", "expect": "how many" })) },
        "/v1/routes/{route}/pause": { "parameters": [route], "post": post("Pauses the route; its messages wait.") },
        "/v1/routes/{route}/resume": { "parameters": [route], "post": post("Resumes the route.") },
        "/v1/poison-retries": { "get": get("Lists the poison queues that are worked on, and how the last run of each ended.") },
        "/v1/poison-retries/{queue}/runs": { "parameters": [queue], "post": post(
            "Takes a batch from the poison queue now and returns what became of it; 503 if the run could not proceed.") },
        "/v1/dead-letters": { "get": get(&format!("Lists dead letters without bodies, newest first; {FILTER}&limit=&after=.")) },
        "/v1/dead-letters/{id}": { "parameters": [id],
                                   "get": get("Returns one dead letter with the history of its attempts, without its body.") },
        "/v1/dead-letters/{id}/reveal": { "parameters": [id], "post": send(
            "Reveals sensitive content, after recording caller and reason in the audit log.",
            json!({ "reason": "string", "what": "a list of body (the default), headers, details" })) },
        "/v1/dead-letters/{id}/edits": { "parameters": [id], "post": send(
            "Creates a new version, if dead_letters.editable allows it; the original is kept.",
            json!({ "reason": "string", "body_base64": "the new body", "patch": "RFC 6902",
                    "headers": "header names with new values; null removes a header" })) },
        "/v1/dead-letters/{id}/approve": { "parameters": [id], "post": send(
            "Approves an edited version that someone else created.", json!({ "reason": "string" })) },
        "/v1/rejections": { "get": get("Lists why messages were rejected whose dead letters stay on their broker, for 30 days, newest first; ?queue=&message_id=&correlation_id=&limit=.") },
        "/v1/causes": { "get": get(&format!("Groups dead letters by cause, largest group first; {FILTER}&limit=.")) },
        "/v1/causes/{cause}": { "parameters": [parameter("cause", "path", "v1:0123456789abcdef")], "post": send(
            "Marks a cause.",
            json!({ "state": "open, acknowledged or resolved", "note": "string" })) },
        "/v1/replays": { "get": get("Lists replays and discards, newest first."), "post": send(
            "Replays dead letters; 202, or 200 if only planned.",
            json!({ "reason": "string", "ids": "ids of dead letters: a list of strings such as dl_g4jmah4z", "filter": "or a filter", "expect": "the expected number",
                    "skip_held": "boolean: leave out dead letters that other operations hold, instead of refusing",
                    "canary": "replay this many first; continue only if all succeed", "rate": "messages per second", "stop_after": "stop after this many failures",
                    "new_ids": "boolean", "plan": "boolean: plan only" })) },
        "/v1/replays/{id}": { "parameters": [operation], "get": get("Returns a replay or discard and its progress."), "post": send(
            "Starts, pauses, resumes or cancels it.",
            json!({ "order": "run, pause or cancel", "reason": "string" })) },
        "/v1/replays/{id}/messages": { "parameters": [operation], "get": get("Lists the outcome of each message; ?after=.") },
        "/v1/discards": { "post": send(
            "Discards dead letters for good; the expected number is required.",
            json!({ "reason": "string", "ids": "ids of dead letters: a list of strings such as dl_g4jmah4z", "filter": "or a filter", "expect": "the expected number",
                    "skip_held": "boolean: leave out dead letters that other operations hold, instead of refusing" })) },
        "/v1/exports": { "post": send("Exports dead letters as NDJSON, bodies included.",
            json!({ "reason": "string", "filter": "a filter; all if absent" })) },
        "/v1/imports": { "post": post("Imports dead letters from NDJSON as written by an export; ?reason=. All or nothing.") },
        "/v1/audit": { "get": get("Lists the audit log with its hash chain; ?after=&limit=.") },
        "/v1/whoami": { "get": get("Returns what the token may do.") },
        "/healthz": { "get": get("Returns 200 while the process is alive.") },
        "/readyz": { "get": get("Returns 200 while messages are accepted.") },
        "/metrics": { "get": get("Metrics in the Prometheus text format.") },
        "/openapi.json": { "get": get("This description.") },
    })
}

fn item() -> Value {
    let text = || json!({ "type": "string" });
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "id": text(), "type": text(), "correlation_id": text(), "causation_id": text(),
            "content_type": text(), "delay": text(), "body_base64": text(), "body": {},
            "headers": { "type": "object", "additionalProperties": text() },
        },
    })
}

fn parameter(name: &str, place: &str, description: &str) -> Value {
    json!({ "name": name, "in": place, "required": place == "path", "description": description,
            "schema": { "type": "string" } })
}

fn get(summary: &str) -> Value {
    json!({ "summary": summary, "responses": responses("200", "Success.", &["400", "401", "403", "404", "503"]) })
}

/// A POST with a JSON object; `members` describes its members.
fn send(summary: &str, members: Value) -> Value {
    let members = members.as_object().into_iter().flatten();
    let properties: serde_json::Map<_, _> =
        members.map(|(name, words)| (name.clone(), json!({ "description": words }))).collect();
    let schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    json!({
        "summary": summary,
        "requestBody": { "content": { "application/json": { "schema": schema } } },
        "responses": responses("200", "Success.", &["400", "401", "403", "404", "409", "503"]),
    })
}

fn post(summary: &str) -> Value {
    json!({ "summary": summary, "responses": responses("200", "Success.", &["401", "403", "404"]) })
}

fn responses(good: &str, description: &str, problems: &[&str]) -> Value {
    let mut all = json!({ good: { "description": description } });
    for status in problems {
        let content = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
        all[status] = json!({ "description": "A problem.", "content": content });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The router cannot list its routes, so the test reads its source.
    #[test]
    fn every_route_is_described_and_nothing_else() {
        let source = include_str!("mod.rs");
        let served: Vec<_> =
            source.split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let described = paths();
        let mut described: Vec<_> =
            described.as_object().unwrap().keys().map(String::as_str).collect();
        let mut served = served;
        served.sort_unstable();
        described.sort_unstable();
        assert_eq!(served, described);
    }
}

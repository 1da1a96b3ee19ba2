//! `/openapi.json`: what is served, for people and generators.

use axum::Json;
use serde_json::{Value, json};

pub(super) async fn openapi() -> Json<Value> {
    Json(description())
}

/// The filters of lists.
const FILTER: &str = "?queue=&route=&type=&kind=&code=&cause=&correlation_id=&message_id=&since=&until=&min_attempts=&replayed=&state=";

fn description() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Bezoar", "version": env!("CARGO_PKG_VERSION"),
                  "description": "Messages in, deliveries out, and what went wrong between." },
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
    let queue = parameter("queue", "path", "One segment: hospital%2Fresults.");
    let route = parameter("route", "path", "The route's name.");
    let id = parameter("id", "path", "The dead letter's id.");
    let operation = parameter("id", "path", "The replay's or discard's id.");
    json!({
        "/v1/queues": { "get": get("What is where; what is not known is null.") },
        "/v1/queues/{queue}/messages": { "parameters": [queue], "post": {
            "summary": "Accepts a message: 202 once it is on disk.",
            "parameters": [
                parameter("Bezoar-Id", "header", "The same id within 24 h is accepted once."),
                parameter("Bezoar-Type", "header", "By which handlers are picked; `message` if absent."),
                parameter("Bezoar-Correlation-Id", "header", "What connects messages."),
                parameter("Bezoar-Causation-Id", "header", "The message that caused this one."),
                parameter("Bezoar-Delay", "header", "Not before this has passed: 30s, 5m, 1h30m."),
            ],
            "requestBody": { "content": { "*/*": { "schema": {} } } },
            "responses": responses("202", "Accepted: {\"id\": …}", &["400", "401", "403", "404", "408", "413", "503", "507"]),
        } },
        "/v1/queues/{queue}/batches": { "parameters": [queue], "post": {
            "summary": "Accepts up to 10,000 messages, with a result for each in its place.",
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
        "/v1/routes/{route}/pause": { "parameters": [route], "post": post("Takes no more messages until resumed.") },
        "/v1/routes/{route}/resume": { "parameters": [route], "post": post("Takes messages again.") },
        "/v1/dead-letters": { "get": get(&format!("Dead letters without bodies, the latest first; {FILTER}&limit=&after=.")) },
        "/v1/dead-letters/{id}": { "parameters": [parameter("id", "path", "The dead letter's id.")],
                                   "get": get("One dead letter with the history of its attempts, without body.") },
        "/v1/dead-letters/{id}/reveal": { "parameters": [id], "post": send(
            "What is sensitive, after the audit log says who looked and why.",
            json!({ "reason": "string", "what": "some of body (default), headers, details" })) },
        "/v1/dead-letters/{id}/edits": { "parameters": [id], "post": send(
            "A new version, where dead_letters.editable allows it; the original stays.",
            json!({ "reason": "string", "body_base64": "another body", "patch": "RFC 6902",
                    "headers": "names with new values, null removes" })) },
        "/v1/dead-letters/{id}/approve": { "parameters": [id], "post": send(
            "Somebody else's leave for a new version.", json!({ "reason": "string" })) },
        "/v1/causes": { "get": get(&format!("Why messages died, the largest group first; {FILTER}&limit=.")) },
        "/v1/causes/{cause}": { "parameters": [parameter("cause", "path", "v1:0123456789abcdef")], "post": send(
            "What people think of a cause.",
            json!({ "state": "open, acknowledged or resolved", "note": "string" })) },
        "/v1/replays": { "get": get("Replays and discards, the latest first."), "post": send(
            "Sends dead letters back to their queues: 202, or 200 if only planned.",
            json!({ "reason": "string", "ids": "which", "filter": "or which", "expect": "how many",
                    "canary": "how many go first", "rate": "how many a second", "stop_after": "how many failures",
                    "new_ids": "boolean", "plan": "boolean: only plan" })) },
        "/v1/replays/{id}": { "parameters": [operation], "get": get("A replay or discard, and how far it is."), "post": send(
            "Starts, pauses, goes on with or cancels it.",
            json!({ "order": "run, pause or cancel", "reason": "string" })) },
        "/v1/replays/{id}/messages": { "parameters": [operation], "get": get("What became of each message; ?after=.") },
        "/v1/discards": { "post": send(
            "Removes dead letters for good; how many must be known.",
            json!({ "reason": "string", "ids": "which", "filter": "or which", "expect": "how many" })) },
        "/v1/exports": { "post": send("Dead letters as NDJSON, bodies and all.",
            json!({ "reason": "string", "filter": "which; all if absent" })) },
        "/v1/imports": { "post": post("Dead letters from NDJSON as an export writes it; ?reason=. All or none.") },
        "/v1/audit": { "get": get("Who did what, chained by hashes; ?after=&limit=.") },
        "/v1/whoami": { "get": get("What the token in use may do.") },
        "/healthz": { "get": get("The process answers.") },
        "/readyz": { "get": get("Messages can be accepted.") },
        "/metrics": { "get": get("Prometheus' text format.") },
        "/openapi.json": { "get": get("This.") },
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
    json!({ "summary": summary, "responses": responses("200", "As it says.", &["400", "401", "403", "404", "503"]) })
}

/// A POST with a JSON object whose members are told in words.
fn send(summary: &str, members: Value) -> Value {
    let members = members.as_object().into_iter().flatten();
    let properties: serde_json::Map<_, _> =
        members.map(|(name, words)| (name.clone(), json!({ "description": words }))).collect();
    let schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    json!({
        "summary": summary,
        "requestBody": { "content": { "application/json": { "schema": schema } } },
        "responses": responses("200", "Done.", &["400", "401", "403", "404", "409", "503"]),
    })
}

fn post(summary: &str) -> Value {
    json!({ "summary": summary, "responses": responses("200", "Done.", &["401", "403", "404"]) })
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

    /// The router has no list of its routes, so its source is read.
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

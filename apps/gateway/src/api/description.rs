//! `/openapi.json`: what is served, for people and generators.

use axum::Json;
use serde_json::{Value, json};

pub(super) async fn openapi() -> Json<Value> {
    Json(description())
}

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
        "/v1/routes/{route}/pause": { "parameters": [route], "post": post("Takes no more messages until resumed.") },
        "/v1/routes/{route}/resume": { "parameters": [route], "post": post("Takes messages again.") },
        "/v1/dead-letters": { "get": get("Dead letters without bodies; ?queue=&limit=&after=.") },
        "/v1/dead-letters/{id}": { "parameters": [parameter("id", "path", "The dead letter's id.")],
                                   "get": get("One dead letter with the history of its attempts, without body.") },
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

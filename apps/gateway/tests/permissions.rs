//! Who may do what: every operation that is described, for every role, within and beyond a limit to queues.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use support::{Endpoint, Lab, route};

/// Who asks: the secret of a token is its name, made long enough.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Nobody,
    Stranger,
    Holder(Role, Limit),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    Sender,
    Viewer,
    Operator,
    Admin,
}

impl Role {
    fn includes(self, other: Self) -> bool {
        match self {
            Self::Sender | Self::Viewer => self == other,
            Self::Operator => other != Self::Admin,
            Self::Admin => true,
        }
    }
}

/// To which queues a token is limited.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    None,
    /// To the queue that is asked about.
    Within,
    /// To another.
    Beyond,
}

/// What an operation needs.
#[derive(Debug, Clone, Copy)]
enum Needs {
    Nothing,
    /// A token, any.
    Token,
    /// A role for the queue that is asked about.
    Queue(Role),
    /// A role; of queues beyond the limit nothing is shown.
    Shown(Role),
    /// A role; what belongs to a queue beyond the limit is as if it were not there.
    Found(Role),
    /// A role for all queues.
    Everywhere(Role),
}

/// Every operation has its line; one without fails the test.
fn needs(method: &str, path: &str) -> Option<Needs> {
    use Needs::*;
    Some(match (method, path) {
        ("get", "/healthz" | "/readyz" | "/openapi.json") => Nothing,
        ("get", "/metrics") => Everywhere(Role::Viewer),
        ("get", "/v1/whoami") => Token,
        (
            "get",
            "/v1/queues" | "/v1/routes" | "/v1/status" | "/v1/messages/{id}" | "/v1/dead-letters"
            | "/v1/causes" | "/v1/replays" | "/v1/discards" | "/v1/rejections"
            | "/v1/poison-retries",
        ) => Shown(Role::Viewer),
        ("get", "/v1/queues/{queue}" | "/v1/queues/{queue}/messages") => Queue(Role::Viewer),
        (
            "get",
            "/v1/dead-letters/{id}"
            | "/v1/causes/{id}"
            | "/v1/replays/{id}"
            | "/v1/replays/{id}/messages",
        ) => Found(Role::Viewer),
        ("post", "/v1/dead-letters/{id}/reveal" | "/v1/causes/{id}" | "/v1/replays/{id}") => {
            Found(Role::Operator)
        }
        ("post", "/v1/replays") => Shown(Role::Operator),
        ("post", "/v1/dead-letters/{id}/edits" | "/v1/dead-letters/{id}/approve") => {
            Found(Role::Admin)
        }
        ("post", "/v1/discards" | "/v1/exports" | "/v1/imports") => Shown(Role::Admin),
        ("get", "/v1/audit") => Everywhere(Role::Operator),
        ("post", "/v1/queues/{queue}/messages" | "/v1/queues/{queue}/batches") => {
            Queue(Role::Sender)
        }
        ("post", "/v1/queues/{queue}/replay" | "/v1/poison-retries/{queue}/runs") => {
            Queue(Role::Operator)
        }
        ("post", "/v1/queues/{queue}/discard") => Queue(Role::Admin),
        ("post", "/v1/routes/{route}/pause" | "/v1/routes/{route}/resume") => Found(Role::Operator),
        _ => return None,
    })
}

/// `None`: done.
fn refusal(needs: Needs, who: Who) -> Option<StatusCode> {
    let (role, limit) = match (needs, who) {
        (Needs::Nothing, _) | (Needs::Token, Who::Holder(..)) => return None,
        (_, Who::Nobody | Who::Stranger) => return Some(StatusCode::UNAUTHORIZED),
        (_, Who::Holder(role, limit)) => (role, limit),
    };
    match needs {
        Needs::Queue(least) if !role.includes(least) || limit == Limit::Beyond => {
            Some(StatusCode::FORBIDDEN)
        }
        Needs::Shown(least) | Needs::Found(least) if !role.includes(least) => {
            Some(StatusCode::FORBIDDEN)
        }
        Needs::Found(_) if limit == Limit::Beyond => Some(StatusCode::NOT_FOUND),
        Needs::Everywhere(least) if !role.includes(least) || limit != Limit::None => {
            Some(StatusCode::FORBIDDEN)
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_requires_its_permission() {
    let (lab, there) = lab_with_dead_letters().await;
    let (_, described) = lab.get("/openapi.json").await;
    let mut asked = 0;
    for (path, operations) in described["paths"].as_object().unwrap() {
        let methods = operations.as_object().unwrap().keys().filter(|key| *key != "parameters");
        for method in methods {
            let needs = needs(method, path)
                .unwrap_or_else(|| panic!("{method} {path} is new: say here who may"));
            for who in everybody() {
                check(&lab, method, path, &there, who, refusal(needs, who)).await;
                asked += 1;
            }
        }
    }
    assert!(asked >= 26 * everybody().count(), "{asked}");
}

async fn check(
    lab: &Lab,
    method: &str,
    path: &str,
    there: &There,
    who: Who,
    expected: Option<StatusCode>,
) {
    let (status, answer) = ask(lab, method, &there.filled(path), who).await;
    // What somebody may do can be impossible at present, which is another answer than that they may not.
    let impossible = match path {
        "/v1/poison-retries/{queue}/runs" => StatusCode::NOT_FOUND, // nothing works on a poison queue here
        _ => StatusCode::CONFLICT,
    };
    match expected {
        Some(refused) => assert_eq!(status, refused, "{who:?}: {method} {path}: {answer}"),
        None => assert!(
            status.is_success() || status == impossible,
            "{who:?}: {method} {path}: {status} {answer}"
        ),
    }
    if let Who::Holder(_, Limit::Beyond) = who {
        let hides = path.starts_with("/v1/") && method == "get";
        assert!(!hides || !names_a_queue(&answer, "lab"), "{who:?}: {method} {path}: {answer}");
    }
}

/// What there is to be asked about, all of it in the queue `lab`.
struct There {
    dead_letter: String,
    operation: String,
    cause: String,
}

impl There {
    fn filled(&self, path: &str) -> String {
        let id = match path {
            _ if path.starts_with("/v1/replays") => &self.operation,
            _ if path.starts_with("/v1/causes") => &self.cause,
            _ => &self.dead_letter,
        };
        let query = if path == "/v1/imports" { "?reason=test" } else { "" };
        path.replace("{queue}", "lab").replace("{route}", "results").replace("{id}", id) + query
    }
}

/// A request that is right in itself, and changes as little as possible.
fn body(method: &str, path: &str) -> &'static str {
    let last = path.rsplit('/').next().unwrap();
    match last {
        _ if method == "get" => "",
        "batches" => "[]",
        "messages" | "pause" | "resume" => "",
        "reveal" | "approve" | "exports" | "replay" => r#"{"reason": "test"}"#,
        "discard" => r#"{"reason": "test", "expect": 0}"#,
        "edits" => r#"{"reason": "test", "headers": {"a": "b"}}"#,
        "replays" => r#"{"reason": "test", "filter": {"state": "edited"}, "plan": true}"#,
        "discards" => r#"{"reason": "test", "filter": {}, "expect": 999}"#,
        _ if path.starts_with("/v1/causes") => r#"{"state": "acknowledged"}"#,
        _ if path.starts_with("/v1/replays") => r#"{"command": "pause", "reason": "test"}"#,
        _ => "",
    }
}

async fn ask(lab: &Lab, method: &str, path: &str, who: Who) -> (StatusCode, Value) {
    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let token = match who {
        Who::Nobody => String::new(),
        Who::Stranger => "Bearer nobody-knows-this-token".to_owned(),
        Who::Holder(role, limit) => format!("Bearer {}", secret(role, limit)),
    };
    let body = body(&method.as_str().to_lowercase(), path);
    lab.call(method, path, &[("authorization", &token)], Bytes::from(body)).await
}

fn names_a_queue(answer: &Value, queue: &str) -> bool {
    match answer {
        Value::Object(members) => {
            members.get("queue").is_some_and(|it| it == queue)
                || members.values().any(|it| names_a_queue(it, queue))
        }
        Value::Array(items) => items.iter().any(|it| names_a_queue(it, queue)),
        _ => false,
    }
}

/// What a refusal says must not tell of queues and routes beyond the limit either.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_limited_to_a_queue_does_not_see_others() {
    let (lab, _) = lab_with_dead_letters().await;
    let who = Who::Holder(Role::Operator, Limit::Beyond);
    for (method, path) in [
        ("post", "/v1/queues/nope/messages"),
        ("post", "/v1/routes/nope/pause"),
        ("post", "/v1/routes/results/pause"),
        ("get", "/v1/dead-letters?queue=nope"),
        ("get", "/v1/dead-letters?queue=gone"),
        ("post", "/v1/queues/gone/messages"),
    ] {
        let (status, answer) = ask(&lab, method, path, who).await;
        assert!(status.is_client_error(), "{path}: {status}");
        let text = answer.to_string();
        assert!(!text.contains("lab") && !text.contains("results"), "{path}: {text}");
    }
}

/// For those who decide that everybody who can connect may read them.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_be_open() {
    let open = tokens() + "[telemetry]\nmetrics_access = \"open\"\n";
    let lab = Lab::start(&open).await;
    for who in everybody() {
        assert_eq!(ask(&lab, "get", "/metrics", who).await.0, StatusCode::OK, "{who:?}");
    }
}

/// Wrong tokens and missing roles can be noticed.
#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_are_counted() {
    let lab = Lab::start(&tokens()).await.with_token(&secret(Role::Admin, Limit::None));
    let viewer = Who::Holder(Role::Viewer, Limit::None);
    for who in [Who::Nobody, Who::Stranger, Who::Stranger, viewer] {
        ask(&lab, "post", "/v1/queues/lab/messages", who).await;
    }
    let shown = lab.plain_text("/metrics").await;
    for (status, reason, count) in
        [(401, "no-token", 1), (401, "unknown-token", 2), (403, "forbidden", 1)]
    {
        let line =
            format!("bezoar_http_refused_total{{reason=\"{reason}\",status=\"{status}\"}} {count}");
        assert!(shown.contains(&line), "{line} is missing in:\n{shown}");
    }
}

fn everybody() -> impl Iterator<Item = Who> {
    let roles = [Role::Sender, Role::Viewer, Role::Operator, Role::Admin];
    let holders = roles.into_iter().flat_map(|role| {
        [Limit::None, Limit::Within, Limit::Beyond].map(|limit| Who::Holder(role, limit))
    });
    [Who::Nobody, Who::Stranger].into_iter().chain(holders)
}

fn secret(role: Role, limit: Limit) -> String {
    format!("token-of-{role:?}-{limit:?}").to_lowercase()
}

/// A token for each holder, and the queues that they are limited to. The queue `gone` is not configured.
fn tokens() -> String {
    let token = |who| {
        let Who::Holder(role, limit) = who else { return String::new() };
        let (secret, role) = (secret(role, limit), format!("{role:?}").to_lowercase());
        let queues = match limit {
            Limit::None => "",
            Limit::Within => "queues = [\"lab\"]",
            Limit::Beyond => "queues = [\"ward\", \"gone\"]",
        };
        format!(
            "[[token]]\nname = \"{secret}\"\nrole = \"{role}\"\nsecret = \"{secret}\"\n{queues}\n"
        )
    };
    let queues = "[[queue]]\nname = \"lab\"\n[[queue]]\nname = \"ward\"\n".to_owned();
    queues + &everybody().map(token).collect::<String>()
}

/// Two dead letters: one is free, one is part of a replay that is only planned.
async fn lab_with_dead_letters() -> (Lab, There) {
    let endpoint = Endpoint::start().await;
    endpoint.answers([422, 422]);
    let editable = "[dead_letters]\neditable = [\"lab\"]\n";
    let lab = Lab::start(&(tokens() + &route(endpoint.port, "") + editable)).await;
    let lab = lab.with_token(&secret(Role::Admin, Limit::None));
    lab.send("lab", &[], "x").await;
    lab.send("lab", &[], "y").await;
    lab.until("lab", |row| row["dead"] == 2).await;
    let (_, list) = lab.get("/v1/dead-letters").await;
    let [free, taken] = [0, 1].map(|at| list["items"][at]["id"].as_str().unwrap());
    let plan = format!(r#"{{"reason": "test", "ids": ["{taken}"], "plan": true}}"#);
    let (status, planned) = lab.post("/v1/replays", &[], &plan).await;
    assert_eq!(status, StatusCode::OK, "{planned}");
    let cause = list["items"][0]["cause"].as_str().unwrap().to_owned();
    let operation = planned["id"].as_str().unwrap().to_owned();
    (lab, There { dead_letter: free.to_owned(), operation, cause })
}

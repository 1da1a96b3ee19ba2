//! Who asks, and whether they may.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, State},
};
use bezoar::QueueName;
use http::{StatusCode, header, request::Parts};
use serde_json::{Value, json};

use super::Problem;
use crate::{access::Identity, app::App, config::Role};

/// Whoever sent a request with a token that we know.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Identity);

impl Caller {
    /// Refuses those who may not.
    pub(crate) fn needs(&self, role: Role, queue: Option<&QueueName>) -> Result<(), Problem> {
        if self.0.may(role, queue) {
            return Ok(());
        }
        let detail = match queue {
            Some(queue) => format!("this needs the role {role} for the queue {queue:?}"),
            None => format!("this needs the role {role}"),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// Refuses those who may not, or only for some queues.
    pub(crate) fn needs_everywhere(&self, role: Role) -> Result<(), Problem> {
        if self.0.may(role, None) && self.0.queues.is_none() {
            return Ok(());
        }
        let detail = format!("this needs the role {role} for all queues");
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// Whether they may see this queue at all.
    pub(crate) fn sees(&self, queue: &QueueName) -> bool {
        self.0.may(Role::Viewer, Some(queue))
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let shown = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = shown.and_then(|value| value.strip_prefix("Bearer "));
        let identity = token.and_then(|token| app.access().identify(token.trim()).cloned());
        identity.map(Self).ok_or_else(|| {
            let detail = match token {
                None => "send a token: Authorization: Bearer TOKEN",
                Some(_) => "this token is not known here",
            };
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })
    }
}

pub(crate) async fn whoami(Caller(identity): Caller, State(app): State<Arc<App>>) -> Json<Value> {
    let may = |role| identity.role >= role;
    Json(json!({
        "name": identity.name,
        "role": identity.role.as_str(),
        "queues": identity.queues.as_ref().map(|queues| queues.iter().map(QueueName::as_str).collect::<Vec<_>>()),
        "may": {
            "see counts and metadata": may(Role::Viewer),
            "send messages": may(Role::Operator),
            "pause and resume routes": may(Role::Operator),
        },
        "version": app.version(),
    }))
}

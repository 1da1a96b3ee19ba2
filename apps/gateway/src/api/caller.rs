//! Identifies the caller of a request and checks its role.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, State},
};
use bezoar::{
    QueueName,
    catalogue::{AuditedAction, Verb},
};
use http::{StatusCode, header, request::Parts};

use super::Problem;
use crate::{
    access::Identity,
    api_types::{self, Permission},
    app::App,
    config::Role,
    server::Peer,
};

/// The sender of a request with a known token.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Identity,
    from: String,
}

impl Caller {
    /// Fails unless the caller has `role`, for `queue` if one is given.
    pub(crate) fn needs(&self, role: Role, queue: Option<&QueueName>) -> Result<(), Problem> {
        if self.identity.may(role, queue) {
            return Ok(());
        }
        let detail = match queue {
            Some(queue) => format!("requires the role {role} for queue {queue:?}"),
            None => format!("requires the role {role}"),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// Fails unless the caller has `role` for all queues.
    pub(crate) fn needs_everywhere(&self, role: Role) -> Result<(), Problem> {
        if self.identity.may(role, None) && self.identity.queues.is_none() {
            return Ok(());
        }
        let detail = format!("requires the role {role} for all queues");
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// Whether the caller may send to this queue.
    pub(crate) fn sends_to(&self, queue: &QueueName) -> bool {
        self.identity.may(Role::Sender, Some(queue))
    }

    /// Whether the caller may see this queue.
    pub(crate) fn sees(&self, queue: &QueueName) -> bool {
        self.identity.may(Role::Viewer, Some(queue))
    }

    /// The queues that a filter may cover: the requested one, or all that the caller may see; `None` means all.
    pub(crate) fn limited(
        &self,
        asked: Option<QueueName>,
    ) -> Result<Option<Vec<QueueName>>, Problem> {
        match asked {
            Some(queue) => {
                self.needs(Role::Viewer, Some(&queue))?;
                Ok(Some(vec![queue]))
            }
            None => Ok(self.identity.queues.clone()),
        }
    }

    /// An action of the caller, for the audit log.
    pub(crate) fn action(&self, verb: Verb, target: String, reason: String) -> AuditedAction {
        AuditedAction {
            actor: self.identity.name.clone(),
            address: self.from.clone(),
            verb,
            target,
            reason,
        }
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let shown = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = shown.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("bearer") // RFC 9110: schemes are case-insensitive
        });
        let token = token.map(|(_, token)| token);
        let identity = token.and_then(|token| app.access().identify(token.trim()).cloned());
        let peer = parts.extensions.get::<Arc<Peer>>();
        if let (Some(_), Some(peer)) = (&identity, peer) {
            peer.has_token();
        }
        let from = peer.map_or_else(String::new, |peer| peer.address.to_string());
        identity.map(|identity| Self { identity, from }).ok_or_else(|| {
            let (detail, reason) = match token {
                None => ("no token; send the header Authorization: Bearer TOKEN", "no-token"),
                Some(_) => ("unknown token", "unknown-token"),
            };
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).counted_as(reason)
        })
    }
}

/// Returns what the token may do.
#[utoipa::path(
    get, path = "/v1/whoami", operation_id = "get_identity", tag = "gateway",
    responses((status = 200, description = "Success.", body = api_types::Identity))
)]
pub(crate) async fn whoami(
    caller: Caller,
    State(app): State<Arc<App>>,
) -> Json<api_types::Identity> {
    let identity = &caller.identity;
    let queues = identity.queues.as_ref();
    let allowed = Permission::ALL.iter().copied().filter(|it| caller.is_allowed(*it));
    Json(api_types::Identity {
        name: identity.name.clone(),
        role: identity.role.into(),
        queues: queues.map(|queues| queues.iter().map(ToString::to_string).collect()),
        permissions: allowed.collect(),
        version: app.version().to_owned(),
    })
}

impl Caller {
    fn is_allowed(&self, permission: Permission) -> bool {
        let may = |role: Role| self.identity.role.includes(role);
        match permission {
            Permission::ViewMetadata => may(Role::Viewer),
            Permission::SendMessages => may(Role::Sender),
            Permission::PauseRoutes
            | Permission::ReplayDeadLetters
            | Permission::RunPoisonRetries
            | Permission::MarkCauses
            | Permission::RevealContent => may(Role::Operator),
            Permission::ReadAuditLog => self.needs_everywhere(Role::Operator).is_ok(),
            Permission::EditDeadLetters
            | Permission::ApproveEdits
            | Permission::DiscardDeadLetters
            | Permission::TransferDeadLetters => may(Role::Admin),
            Permission::Unknown => false,
        }
    }
}

impl From<Role> for api_types::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Sender => Self::Sender,
            Role::Viewer => Self::Viewer,
            Role::Operator => Self::Operator,
            Role::Admin => Self::Admin,
        }
    }
}

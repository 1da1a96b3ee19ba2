//! What a token may do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::named;

/// The holder of a token, and what it may do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Identity {
    /// The token's name.
    pub name: String,
    /// The token's role.
    pub role: Role,
    /// The queues it is limited to; null means all queues.
    pub queues: Option<Vec<String>>,
    /// What it may do.
    pub permissions: Vec<Permission>,
    /// The gateway's version.
    pub version: String,
}

named! {
    /// The role of a token.
    Role {
        /// May only send.
        Sender = "sender",
        /// May see counts and metadata.
        Viewer = "viewer",
        /// May also send, replay, and reveal with a reason.
        Operator = "operator",
        /// May do everything.
        Admin = "admin",
    }
}

named! {
    /// Something that a token may allow.
    Permission {
        /// Counts and metadata of queues, routes, dead letters and operations.
        ViewMetadata = "view_metadata",
        /// Send messages.
        SendMessages = "send_messages",
        /// Pause and resume routes.
        PauseRoutes = "pause_routes",
        /// Replay dead letters.
        ReplayDeadLetters = "replay_dead_letters",
        /// Run poison retries.
        RunPoisonRetries = "run_poison_retries",
        /// Mark causes.
        MarkCauses = "mark_causes",
        /// Read the audit log.
        ReadAuditLog = "read_audit_log",
        /// Reveal bodies, header values and error texts, with a reason.
        RevealContent = "reveal_content",
        /// Edit dead letters.
        EditDeadLetters = "edit_dead_letters",
        /// Approve dead letters that somebody else edited.
        ApproveEdits = "approve_edits",
        /// Discard dead letters.
        DiscardDeadLetters = "discard_dead_letters",
        /// Export and import dead letters.
        TransferDeadLetters = "transfer_dead_letters",
    }
}

impl Permission {
    /// Every permission.
    pub const ALL: &[Self] = &[
        Self::ViewMetadata,
        Self::SendMessages,
        Self::PauseRoutes,
        Self::ReplayDeadLetters,
        Self::RunPoisonRetries,
        Self::MarkCauses,
        Self::ReadAuditLog,
        Self::RevealContent,
        Self::EditDeadLetters,
        Self::ApproveEdits,
        Self::DiscardDeadLetters,
        Self::TransferDeadLetters,
    ];
}

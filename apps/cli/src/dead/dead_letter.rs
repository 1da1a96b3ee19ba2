//! Dead letters: their ids, and their states as text.

use bezoar::{DeadLetterId, InvalidId, MessageId, catalogue::OperationId};
use bezoar_gateway::api_types::DeadLetterSummary;

use crate::shell;

/// Parses the id of a dead letter; an error says what to do with an id of another kind.
pub(super) fn id(text: &str) -> Result<DeadLetterId, String> {
    text.parse().map_err(|error: InvalidId| match text.parse::<OperationId>() {
        Ok(operation) => format!("{error}; use `bezoar dead replays {operation}`"),
        Err(_) if MessageId::new(text).is_ok() && !text.starts_with("dl_") => {
            let text = shell::quote(text);
            format!("{error}; find a message with `bezoar dead list --message-id {text}`")
        }
        Err(_) => error.to_string(),
    })
}

/// `open`, `held by op_209aaw0b`
pub(super) fn state(dead: &DeadLetterSummary) -> String {
    match &dead.operation {
        Some(operation) => format!("{} by {operation}", dead.state),
        None => dead.state.to_string(),
    }
}

//! Dead letters: their ids, and their states as text.

use bezoar::{DeadLetterId, InvalidId, MessageId, catalogue::OperationId};
use bezoar_gateway::api_types::DeadLetterSummary;

use super::abbreviation::Abbreviated;
use crate::shell;

/// Parses the id of a dead letter, or its beginning; an error says what to do with an id of another kind.
pub(super) fn id(text: &str) -> Result<Abbreviated<DeadLetterId>, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let whole: Result<DeadLetterId, InvalidId> = text.parse();
    whole.map(Abbreviated::Whole).map_err(|error| match text.parse::<OperationId>() {
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

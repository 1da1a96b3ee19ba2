//! A text of a poison queue: what to deliver, and how often that was tried.
//!
//! The retry count is a member of the outermost JSON object, whatever that is: a message of another program, an envelope
//! of ours, or a poison record. If that has none, the count of the message inside it applies. A retry replaces the value,
//! or adds the member, and leaves every other byte alone. A text that is no object is wrapped, as a retry of the
//! transport does it: `{"bezoar":1,"text":…,"RetryCount":1}`.
//!
//! What is ours is never delivered as it is stored, so it can carry a ledger too: then its dead letter tells why each
//! delivery failed.
//!
//! | where | what |
//! | --- | --- |
//! | `reader.rs` | a text as a message, through the records and wrappers around it |
//! | `object.rs` | the JSON object in a text, and a change of one member |

mod object;
mod reader;
#[cfg(test)]
mod tests;

use bezoar_core::{CorrelationId, Invalid, Ledger, Message, poison_retry::RetryFields};

use self::{
    object::{Written, has, is_record, object, with_value},
    reader::Reader,
};
use super::{LIMIT_BYTES, envelope, json, ledger, stored_text::Members};
use crate::{ForeignText, connection::queue_client::Fetched};

/// How many records and wrappers are opened to find the message.
const MOST_LAYERS: u32 = 4;
/// Only a text that is about as large as this can be too large to be rewritten.
const NEARLY_FULL_BYTES: usize = LIMIT_BYTES / 3;
const LEDGER: &str = "ledger";

/// Checks the names, and that the retry count does not replace a member of our own messages.
pub(crate) fn check(fields: &RetryFields) -> Result<(), Invalid> {
    fields.check()?;
    if OURS.contains(&fields.retry_count.as_str()) {
        let problem = format!("{:?} is a member of Bezoar's own messages", fields.retry_count);
        return Err(Invalid::new("retry_count_field", problem));
    }
    Ok(())
}

/// Members that a retry count must not replace.
const OURS: [&str; 14] = [
    "bezoar",
    "id",
    "type",
    "time",
    "body",
    "blob",
    "text",
    "headers",
    LEDGER,
    "dead",
    "Bezoar",
    "OriginalMessageId",
    "OriginalText",
    "DequeueCount",
];

/// What a text of a poison queue says.
#[derive(Debug)]
pub(crate) struct RetryText {
    pub(crate) retry_count: u32,
    pub(crate) correlation_id: Option<CorrelationId>,
    /// The message to deliver, without records around it; `None` if it cannot be decoded.
    pub(crate) message: Option<Message>,
    /// Azure's id of the message that became a record, and its text.
    pub(crate) original: Option<(String, String)>,
}

/// Reads a fetched text.
pub(crate) fn read(fetched: &Fetched, foreign: ForeignText, fields: &RetryFields) -> RetryText {
    let reader = Reader { fetched, foreign, fields };
    let layer = reader.layer(&fetched.id, &fetched.text, MOST_LAYERS);
    let found = layer.as_ref().ok();
    let correlation_id = match found {
        Some(layer) => layer.message.correlation_id.clone(),
        None => reader.correlation_id(),
    };
    let mut retry_count = found.and_then(|it| it.retry_count).unwrap_or_default();
    if fetched.text.len() > NEARLY_FULL_BYTES
        && rewritten(&fetched.text, foreign, fields, retry_count.saturating_add(1), None).is_none()
    {
        // The count cannot be stored. Azure's own count is never too low.
        retry_count = retry_count.max(fetched.dequeue_count - 1);
    }
    let (message, original) = layer.ok().map(|it| (it.message, it.original)).unzip();
    RetryText { retry_count, correlation_id, message, original: original.flatten() }
}

/// The text with another retry count, and with this ledger if the text is ours and the ledger fits. `None` if not even the
/// count fits.
pub(crate) fn rewritten(
    text: &str,
    foreign: ForeignText,
    fields: &RetryFields,
    retry_count: u32,
    ledger: Option<&Ledger>,
) -> Option<String> {
    let (base, written) = match object(text, foreign) {
        Some((object, written)) => (object, written),
        None => {
            let wrapped = serde_json::json!({ "bezoar": envelope::VERSION, "text": text });
            (json(&wrapped), Written::Plain)
        }
    };
    let members: Members<'_> = serde_json::from_str(&base).ok()?;
    let is_ours = is_record(&members) || has(&members, "bezoar");
    let counted = with_value(&base, &fields.retry_count, &retry_count.to_string())?;
    let write = |ledger: Option<&Ledger>| {
        let ledger = ledger.map(ledger::write).filter(|it| !it.is_empty());
        let text = ledger.map_or(Some(counted.clone()), |it| with_value(&counted, LEDGER, &it));
        text.map(|it| written.encode(it)).filter(|it| it.len() <= LIMIT_BYTES)
    };
    let mut ledger = ledger.filter(|_| is_ours).cloned();
    let fits = ledger.as_mut().is_some_and(|it| it.fit(|it| write(Some(it)).is_some()));
    write(ledger.as_ref().filter(|_| fits))
}

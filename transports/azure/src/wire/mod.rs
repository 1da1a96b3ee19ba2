//! Messages as the texts of Azure's messages, and back. Pure.
//!
//! | where | what |
//! | --- | --- |
//! | `envelope.rs`, `blob_reference.rs` | a message of ours as JSON; the reference in place of a large body |
//! | `stored_text.rs` | a text that was fetched, as a message; the same text with another ledger |
//! | `poison_record/` | a message that is set aside, and what others set aside |
//! | `retry_text/` | retry count and correlation id in a text of a poison queue |
//! | `ledger.rs` | the ledger, as a part of both |

pub(crate) mod blob_reference;
pub(crate) mod envelope;
mod ledger;
pub(crate) mod poison_record;
pub(crate) mod retry_text;
pub(crate) mod stored_text;

use serde::Serialize;

/// The largest text of a message.
pub(crate) const LIMIT_BYTES: usize = 64 * 1024;

/// The JSON of a value. XML cannot express U+FFFE and U+FFFF; JSON escapes the control characters, but not those.
fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("texts, numbers and maps can be written");
    if json.contains(['\u{fffe}', '\u{ffff}']) {
        return json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    json
}

/// The JSON object `object` with one more member, whose value is `json`; the same object if `json` is empty.
fn with_member(object: &str, name: &str, json: &str) -> String {
    if json.is_empty() {
        return object.to_owned();
    }
    let open = object.strip_suffix('}').expect("an object ends with a brace");
    let separator = if open.ends_with('{') { "" } else { "," };
    format!("{open}{separator}\"{name}\":{json}}}")
}

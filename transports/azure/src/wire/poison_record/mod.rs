//! The record of a message that is set aside, as JSON that other tools can read.
//!
//! `{"OriginalMessageId":…,"OriginalText":…,"DequeueCount":…,"Time":…,"ErrorType":…,"ErrorText":…,"Bezoar":{…}}`
//!
//! If a message is too large to be quoted, the record is left out: an envelope of ours gets a member `dead` instead, and
//! the text of another program is set aside as it is, as Azure Functions do.
//!
//! | where | what |
//! | --- | --- |
//! | `writing.rs` | a message that is set aside, as a record |
//! | `reading.rs` | the dead letter in a text of a poison queue, whoever set it aside |
//! | `replay.rs` | the text with which a dead letter goes back |

mod reading;
mod replay;
#[cfg(test)]
mod tests;
mod writing;

use bezoar_core::{DeadLetterId, QueueName};
use serde::{Deserialize, Serialize};
use serde_json::value::Value;
use sha2::{Digest, Sha256};

pub(super) use self::reading::{Unwrapped, unwrap};
pub(crate) use self::{
    reading::read,
    replay::{as_it_came, as_text, with_body, without_body},
    writing::Poisoned,
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Record {
    #[serde(alias = "originalMessageId")]
    original_message_id: String,
    #[serde(alias = "originalText")]
    original_text: String,
    #[serde(default, alias = "dequeueCount")]
    dequeue_count: u32,
    #[serde(default, alias = "time")]
    time: Option<String>,
    #[serde(default, alias = "errorType", skip_serializing_if = "Option::is_none")]
    error_type: Option<String>,
    #[serde(default, alias = "errorText", skip_serializing_if = "Option::is_none")]
    error_text: Option<String>,
    /// Only records of the poison-queue retry processor have these two. Others may have members of the same names with
    /// anything in them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    correlation_id: Value,
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    retry_count: Option<u32>,
}

/// What only this program writes and reads.
#[derive(Serialize, Deserialize)]
struct Ours {
    /// The number of the dead letter.
    letter: i64,
    code: String,
    reason: String,
    /// Milliseconds since 1970.
    at: i64,
}

/// The id of a letter, from Azure's id of the message that became it: a message that is set aside twice, because the
/// first time it could not be deleted afterwards, is one letter.
fn letter_id(queue: &QueueName, azure_id: &str) -> DeadLetterId {
    let digest =
        Sha256::new().chain_update(queue.as_str()).chain_update([0]).chain_update(azure_id);
    let digest = digest.finalize();
    let number = i64::from_be_bytes(std::array::from_fn(|place| digest[place]));
    DeadLetterId::from_number(number & i64::MAX)
}

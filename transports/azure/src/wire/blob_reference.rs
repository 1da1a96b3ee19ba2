//! The reference to a body in Blob Storage, in place of the body:
//! `"blob":{"container":…,"name":…,"size":…,"sha256":…}`.

use bezoar_core::QueueName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::envelope;
use crate::connection::queue_name;

/// A body in Blob Storage, and how to recognize that it was not altered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlobReference {
    /// The blob container. Absent in references of early versions, which mean the receiver's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    pub(crate) name: String,
    pub(crate) size: usize,
    /// Lowercase hex.
    pub(crate) sha256: String,
}

impl BlobReference {
    /// A reference to this body in a container, under a new name.
    pub(crate) fn new(container: &str, body: &[u8]) -> Self {
        let name = format!("{:032x}", rand::random::<u128>());
        let container = Some(container.to_owned());
        Self { container, name, size: body.len(), sha256: digest(body) }
    }

    /// Whether we chose the name: another program must not make us read or delete blobs of its choice.
    pub(crate) fn is_ours(&self) -> bool {
        let name = self.name.len() == 32 && self.name.bytes().all(|it| it.is_ascii_hexdigit());
        name && self.container.as_deref().is_none_or(is_container)
    }

    /// Whether this is the body that was stored.
    pub(crate) fn matches(&self, body: &[u8]) -> bool {
        self.size == body.len() && self.sha256 == digest(body)
    }
}

/// Whether Azure accepts the name of a container. The rule is that of queues.
pub(crate) fn is_container(name: &str) -> bool {
    QueueName::new(name).is_ok_and(|name| queue_name::check(&name).is_ok())
}

fn digest(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Deserialize)]
struct Referring {
    bezoar: Option<u32>,
    blob: Option<BlobReference>,
    #[serde(rename = "OriginalText")]
    original_text: Option<String>,
}

/// The reference in an envelope of ours, or in a poison record with one.
pub(crate) fn find(text: &str) -> Option<BlobReference> {
    find_up_to(text, envelope::VERSION)
}

/// The same, also in an envelope of a newer version. Only a newer program knows what else it does with the body, so it
/// may be kept, but never deleted or replaced.
pub(crate) fn find_in_any_version(text: &str) -> Option<BlobReference> {
    find_up_to(text, u32::MAX)
}

fn find_up_to(text: &str, version: u32) -> Option<BlobReference> {
    // Most messages have none, and are not parsed twice.
    if !text.contains("blob") {
        return None;
    }
    let it: Referring = serde_json::from_str(text).ok()?;
    match it.original_text {
        Some(original) => find_up_to(&original, version),
        None => it.blob.filter(|blob| it.bezoar.is_some_and(|it| it <= version) && blob.is_ours()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_found_in_envelopes_and_records_only() {
        let name = "0123456789abcdef0123456789abcdef";
        let reference = format!(r#"{{"name":"{name}","size":3,"sha256":"00"}}"#);
        let envelope = format!(r#"{{"bezoar":1,"id":"m","blob":{reference}}}"#);
        assert_eq!(find(&envelope).unwrap().name, name);
        let record = serde_json::json!({ "OriginalMessageId": "o", "OriginalText": envelope });
        assert_eq!(find(&record.to_string()).unwrap().size, 3);
        assert_eq!(find(&format!(r#"{{"blob":{reference}}}"#)), None, "not an envelope");
        assert_eq!(find(&envelope.replace(name, "../../secrets")), None, "not a name of ours");
        let elsewhere = envelope.replace(r#""name""#, r#""container":"../other","name""#);
        assert_eq!(find(&elsewhere), None, "not a container");
        let newer = envelope.replace(r#""bezoar":1"#, r#""bezoar":2"#);
        assert_eq!(find(&newer), None, "only a newer program knows what it means");
        assert_eq!(find_in_any_version(&newer).unwrap().name, name);
        assert_eq!(find("blob"), None);
    }
}

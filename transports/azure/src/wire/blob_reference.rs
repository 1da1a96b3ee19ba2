//! The reference to a body in Blob Storage, in place of the body:
//! `"blob":{"container":…,"name":…,"size":…,"sha256":…}`.
//!
//! Whoever may write to a queue can write any reference. So the name of a body has a form that no other blob has: a random
//! number, and the digest of the body. A reference to anything else is not followed: nothing is read, marked or deleted.

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
        let sha256 = digest(body);
        let name = format!("{:032x}-{sha256}", rand::random::<u128>());
        Self { container: Some(container.to_owned()), name, size: body.len(), sha256 }
    }

    /// Whether the name is one that we give to a body with this digest: another program must not make us read, mark or
    /// delete blobs of its choice.
    pub(crate) fn is_ours(&self) -> bool {
        let name = self.name.split_once('-').is_some_and(|(random, digest)| {
            is_hex(random, 32) && is_hex(digest, 64) && digest == self.sha256
        });
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

/// Whether a text has so many digits, as we write them.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
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

    fn envelope(reference: &BlobReference) -> String {
        serde_json::json!({ "bezoar": 1, "id": "m", "blob": reference }).to_string()
    }

    #[test]
    fn a_reference_is_found_in_envelopes_and_records_only() {
        let reference = BlobReference::new("bodies", b"abc");
        let envelope = envelope(&reference);
        assert_eq!(find(&envelope).as_ref(), Some(&reference));
        let record = serde_json::json!({ "OriginalMessageId": "o", "OriginalText": envelope });
        assert_eq!(find(&record.to_string()).as_ref(), Some(&reference));
        let alone = serde_json::json!({ "blob": reference }).to_string();
        assert_eq!(find(&alone), None, "not an envelope");
        let newer = envelope.replace(r#""bezoar":1"#, r#""bezoar":2"#);
        assert_eq!(find(&newer), None, "only a newer program knows what it means");
        assert_eq!(find_in_any_version(&newer), Some(reference));
        assert_eq!(find("blob"), None);
    }

    #[test]
    fn a_reference_to_a_blob_of_others_is_not_followed() {
        type Change = fn(&mut BlobReference);
        let changes: [(&str, Change); 8] = [
            ("a path", |it| it.name = "../../secrets".to_owned()),
            ("a number alone", |it| it.name.truncate(32)),
            ("a digest alone", |it| it.name = it.sha256.clone()),
            ("the digest of another body", |it| it.sha256 = digest(b"another")),
            ("a name with more", |it| it.name.push('0')),
            ("capitals", |it| it.name = it.name.to_uppercase()),
            ("no digest", |it| {
                it.name.truncate(33);
                it.sha256.clear();
            }),
            ("not a container", |it| it.container = Some("../other".to_owned())),
        ];
        for (what, change) in changes {
            let mut reference = BlobReference::new("bodies", b"abc");
            change(&mut reference);
            assert_eq!(find(&envelope(&reference)), None, "{what}");
            assert_eq!(find_in_any_version(&envelope(&reference)), None, "{what}");
        }
    }
}

//! The audit log as the gateway's API returns it.

use bezoar::catalogue::{AuditEntry, AuditHash, AuditHead};
use jiff::Timestamp;
use serde::Deserialize;

/// A page of the log, and the head of the whole log.
#[derive(Debug, Deserialize)]
pub(super) struct AuditPage {
    pub(super) entries: Vec<AuditRecord>,
    pub(super) head: RecordedHead,
    /// The head that the gateway noted outside of its store, if there is one.
    #[serde(default)]
    pub(super) noted: Option<RecordedHead>,
}

/// One audited action.
#[derive(Debug, Deserialize)]
pub(super) struct AuditRecord {
    pub(super) number: u64,
    pub(super) at: String,
    pub(super) who: String,
    pub(super) from: String,
    pub(super) verb: String,
    pub(super) target: String,
    pub(super) why: String,
    hash: String,
}

/// The head of the log, which the store keeps separately from the entries.
#[derive(Debug, Deserialize)]
pub(super) struct RecordedHead {
    pub(super) count: u64,
    hash: String,
}

impl AuditRecord {
    /// The entry in the form that was hashed; `None` if its time or hash cannot be parsed, which means it was changed.
    pub(super) fn written(&self) -> Option<AuditEntry> {
        Some(AuditEntry {
            number: self.number,
            at: self.at.parse::<Timestamp>().ok()?,
            actor: self.who.clone(),
            address: self.from.clone(),
            verb: self.verb.clone(),
            target: self.target.clone(),
            reason: self.why.clone(),
            hash: hash(&self.hash).ok()?,
        })
    }
}

impl RecordedHead {
    /// The head as stored; `None` if its hash cannot be parsed.
    pub(super) fn kept(&self) -> Option<AuditHead> {
        Some(AuditHead { count: self.count, hash: hash(&self.hash).ok()? })
    }
}

/// Parses the hash of an entry.
pub(super) fn hash(text: &str) -> Result<AuditHash, &'static str> {
    const EXPECTED: &str = "expected 64 hexadecimal digits";
    let text = text.trim();
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(EXPECTED);
    }
    let mut hash = AuditHash([0; 32]);
    for (byte, digits) in hash.0.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| EXPECTED)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| EXPECTED)?;
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_parses_to_what_was_printed() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(hash(&text).unwrap().to_string(), text);
        assert_eq!(hash(&text.to_uppercase()).unwrap().to_string(), text);
        for text in ["", "12", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(32)] {
            assert!(hash(text).is_err(), "{text}");
        }
    }
}

//! Entries of the audit log in the form that was hashed.

use bezoar::catalogue::{AuditEntry, AuditHash, AuditHead};
use bezoar_gateway::api_types::{AuditRecord, RecordedHead};

/// The entry in the form that was hashed; `None` if its hash cannot be parsed, which means it was changed.
pub(super) fn written(record: &AuditRecord) -> Option<AuditEntry> {
    Some(AuditEntry {
        number: record.number,
        at: record.recorded_at,
        actor: record.actor.clone(),
        address: record.address.clone(),
        verb: record.verb.clone(),
        target: record.target.clone(),
        reason: record.reason.clone(),
        hash: hash(&record.hash).ok()?,
    })
}

/// The head as stored; `None` if its hash cannot be parsed.
pub(super) fn kept(head: &RecordedHead) -> Option<AuditHead> {
    Some(AuditHead { count: head.count, hash: hash(&head.hash).ok()? })
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

//! The limits of every catalogue, and the checks that enforce them.

use super::{AuditedAction, CatalogueError, DeadLetterRecord};
use crate::Invalid;

/// The longest text of an audited action, a note or a setting.
pub const TEXT_LIMIT_BYTES: usize = 4_096;
/// The longest page of any list.
pub const PAGE_LIMIT: u32 = 1_000;
/// The maximum number of dead letters in one operation.
pub const SELECTION_LIMIT: usize = 10_000_000;
/// The maximum number of dead letters in one import.
pub const IMPORT_LIMIT: usize = 10_000;
/// The maximum bytes of bodies in one import; a single dead letter may have more.
pub const IMPORT_LIMIT_BYTES: usize = 64 * 1024 * 1024;
/// The maximum number of dead letters that are expired or regrouped in one transaction.
pub const CHUNK_LIMIT: u32 = 10_000;
/// How many versions, replays or earlier dead letters of one message are followed.
pub const CHAIN_LIMIT: usize = 100;

/// Rejects a text that is too long to store.
///
/// # Errors
///
/// [`CatalogueError::Invalid`] with the name of the field.
pub fn check_text(field: &'static str, text: &str) -> Result<(), CatalogueError> {
    if text.len() <= TEXT_LIMIT_BYTES {
        return Ok(());
    }
    let problem = format!("is {} bytes long, at most {TEXT_LIMIT_BYTES} are accepted", text.len());
    Err(Invalid::new(field, problem).into())
}

impl AuditedAction {
    /// Rejects an action that is too long for the audit log.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::Invalid`] with the name of the field that is too long.
    pub fn check(&self) -> Result<(), CatalogueError> {
        check_text("actor", &self.actor)?;
        check_text("address", &self.address)?;
        check_text("target", &self.target)?;
        check_text("reason", &self.reason)
    }
}

/// Rejects an import that is too large for one transaction.
///
/// # Errors
///
/// [`CatalogueError::Invalid`] with the size and the limit.
pub fn check_import(records: &[(String, DeadLetterRecord)]) -> Result<(), CatalogueError> {
    let bytes: usize = records.iter().map(|(_, record)| record.message.body.len()).sum();
    if records.len() > IMPORT_LIMIT || (bytes > IMPORT_LIMIT_BYTES && records.len() > 1) {
        let problem = format!(
            "are {} with {bytes} bytes, at most {IMPORT_LIMIT} with {IMPORT_LIMIT_BYTES} are accepted",
            records.len()
        );
        return Err(Invalid::new("records", problem).into());
    }
    records.iter().try_for_each(|(stamp, _)| check_text("stamp", stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Verb;

    #[test]
    fn a_text_of_full_length_is_accepted_and_one_byte_more_is_not() {
        let action = |reason: usize| AuditedAction {
            actor: "ann".to_owned(),
            address: String::new(),
            verb: Verb::Reveal,
            target: String::new(),
            reason: "x".repeat(reason),
        };
        assert!(action(TEXT_LIMIT_BYTES).check().is_ok());
        let refused = action(TEXT_LIMIT_BYTES + 1).check().unwrap_err();
        assert!(refused.to_string().contains("reason"), "{refused}");
    }
}

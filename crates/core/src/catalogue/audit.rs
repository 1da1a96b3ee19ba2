//! The audit log: entries that are chained by their hashes.

use std::fmt;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// An action to record. Safe to show: it contains no body, header value or error detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedAction {
    /// Who acts: the name of a token or of a program.
    pub actor: String,
    /// The address of the caller.
    pub address: String,
    /// What is done.
    pub verb: Verb,
    /// The object of the action, such as `dead letter 7`.
    pub target: String,
    /// The reason, in the actor's own words.
    pub reason: String,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reveals a body, header values or error details.
    Reveal,
    /// Plans, starts or otherwise controls a replay.
    Replay,
    /// Plans, starts or otherwise controls a discard.
    Discard,
    /// Creates a new version.
    Edit,
    /// Approves a new version.
    Approve,
    /// Exports dead letters.
    Export,
    /// Imports dead letters.
    Import,
    /// Pauses a route.
    Pause,
    /// Resumes a route.
    Resume,
    /// Marks a cause.
    Mark,
    /// Removes expired dead letters.
    Expire,
}

impl Verb {
    /// Every verb.
    pub const ALL: &[Self] = &[
        Self::Reveal,
        Self::Replay,
        Self::Discard,
        Self::Edit,
        Self::Approve,
        Self::Export,
        Self::Import,
        Self::Pause,
        Self::Resume,
        Self::Mark,
        Self::Expire,
    ];

    /// The name of the verb.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reveal => "reveal",
            Self::Replay => "replay",
            Self::Discard => "discard",
            Self::Edit => "edit",
            Self::Approve => "approve",
            Self::Export => "export",
            Self::Import => "import",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Mark => "mark",
            Self::Expire => "expire",
        }
    }
}

/// An entry of the audit log. Its texts are not validated, so that a tampered entry can be shown too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The number of the entry, from 1.
    pub number: u64,
    /// When the action was recorded.
    pub at: Timestamp,
    /// Who acted.
    pub actor: String,
    /// The address of the actor.
    pub address: String,
    /// The name of the verb, see [`Verb::as_str`].
    pub verb: String,
    /// The object of the action.
    pub target: String,
    /// The reason, in the actor's own words.
    pub reason: String,
    /// The hash of these fields and of the previous entry.
    pub hash: AuditHash,
}

/// The hash of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuditHash(pub [u8; 32]);

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The head of an audit log: the number of entries and the hash of the last one. Stored in a separate table, it
/// reveals missing entries at the end; stored on another system, it reveals a log that was rewritten as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditHead {
    /// The number of entries.
    pub count: u64,
    /// The hash of the last entry.
    pub hash: AuditHash,
}

/// The first entry that was tampered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditBreak {
    /// The entry with this number is missing, or not in its place.
    #[error("entry {0} was removed, or is not in its place")]
    Missing(u64),
    /// The entry was changed.
    #[error("entry {0} was changed")]
    Changed(u64),
    /// The entry was added.
    #[error("entry {0} was added")]
    Added(u64),
}

impl AuditHead {
    /// The head of an empty log.
    pub const START: Self = Self { count: 0, hash: AuditHash([0; 32]) };

    /// Returns the entry for an action, and the head after it.
    pub fn append(&self, at: Timestamp, action: &AuditedAction) -> (AuditEntry, Self) {
        let mut entry = AuditEntry {
            number: self.count + 1,
            at,
            actor: action.actor.clone(),
            address: action.address.clone(),
            verb: action.verb.as_str().to_owned(),
            target: action.target.clone(),
            reason: action.reason.clone(),
            hash: self.hash,
        };
        entry.hash = self.hash_of(&entry);
        let head = Self { count: entry.number, hash: entry.hash };
        (entry, head)
    }

    /// Returns the head after an entry that was read from the log.
    ///
    /// # Errors
    ///
    /// [`AuditBreak`] if the entry is not the one that was written after this head.
    pub fn follow(&self, entry: &AuditEntry) -> Result<Self, AuditBreak> {
        let number = self.count + 1;
        if entry.number != number {
            return Err(AuditBreak::Missing(number));
        }
        if entry.hash != self.hash_of(entry) {
            return Err(AuditBreak::Changed(number));
        }
        Ok(Self { count: number, hash: entry.hash })
    }

    /// Checks that the log ends at this head: `kept` is the head stored with the last write.
    ///
    /// # Errors
    ///
    /// [`AuditBreak`] if entries are missing at the end, or were added.
    pub fn ends_at(&self, kept: &Self) -> Result<(), AuditBreak> {
        match self.count.cmp(&kept.count) {
            std::cmp::Ordering::Less => Err(AuditBreak::Missing(self.count + 1)),
            std::cmp::Ordering::Greater => Err(AuditBreak::Added(kept.count + 1)),
            std::cmp::Ordering::Equal if self.hash == kept.hash => Ok(()),
            std::cmp::Ordering::Equal => Err(AuditBreak::Changed(self.count)),
        }
    }

    /// Hashes every text with its length, so that no text can move from one field to the next.
    fn hash_of(&self, entry: &AuditEntry) -> AuditHash {
        let mut hasher = Sha256::new();
        hasher.update(self.hash.0);
        hasher.update(entry.number.to_be_bytes());
        hasher.update(entry.at.as_millisecond().to_be_bytes());
        for text in [&entry.actor, &entry.address, &entry.verb, &entry.target, &entry.reason] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        }
        AuditHash(hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::millis;

    fn written() -> (Vec<AuditEntry>, AuditHead) {
        let mut head = AuditHead::START;
        let mut entries = Vec::new();
        for number in 1..=5 {
            let action = AuditedAction {
                actor: format!("operator {number}"),
                address: "127.0.0.1".to_owned(),
                verb: Verb::Reveal,
                target: format!("dead letter {number}"),
                reason: "looking".to_owned(),
            };
            let (entry, after) = head.append(millis(number), &action);
            entries.push(entry);
            head = after;
        }
        (entries, head)
    }

    fn verified(entries: &[AuditEntry], kept: &AuditHead) -> Result<(), AuditBreak> {
        let head = entries.iter().try_fold(AuditHead::START, |head, entry| head.follow(entry))?;
        head.ends_at(kept)
    }

    #[test]
    fn an_unchanged_log_is_verified() {
        let (entries, head) = written();
        assert_eq!(verified(&entries, &head), Ok(()));
        assert_eq!(verified(&[], &AuditHead::START), Ok(()));
    }

    #[test]
    fn the_first_removed_changed_reordered_or_missing_entry_is_named() {
        type Harm = fn(&mut Vec<AuditEntry>);
        let harms: [(Harm, AuditBreak); 7] = [
            (|it| drop(it.remove(1)), AuditBreak::Missing(2)),
            (|it| it[2].reason = "nothing".to_owned(), AuditBreak::Changed(3)),
            (|it| it[2].at = millis(99), AuditBreak::Changed(3)),
            (|it| it[3].hash.0[0] ^= 1, AuditBreak::Changed(4)),
            (|it| it.swap(1, 3), AuditBreak::Missing(2)),
            (|it| it.truncate(4), AuditBreak::Missing(5)),
            (|it| it.clear(), AuditBreak::Missing(1)),
        ];
        for (place, (harm, expected)) in harms.into_iter().enumerate() {
            let (mut entries, head) = written();
            harm(&mut entries);
            assert_eq!(verified(&entries, &head), Err(expected), "harm {place}");
        }
    }

    #[test]
    fn text_cannot_move_from_one_field_into_the_next() {
        let (mut entries, head) = written();
        entries[0].actor = "operator ".to_owned();
        entries[0].address = "1127.0.0.1".to_owned();
        assert_eq!(verified(&entries, &head), Err(AuditBreak::Changed(1)));
    }

    #[test]
    fn a_rewritten_log_has_another_head() {
        let (mut entries, head) = written();
        entries.pop();
        let shorter = entries.iter().try_fold(AuditHead::START, |head, it| head.follow(it));
        let action = AuditedAction {
            actor: "nobody".to_owned(),
            address: String::new(),
            verb: Verb::Discard,
            target: String::new(),
            reason: String::new(),
        };
        let (entry, _) = shorter.unwrap().append(millis(5), &action);
        entries.push(entry);
        assert_eq!(verified(&entries, &head), Err(AuditBreak::Changed(5)));
    }
}

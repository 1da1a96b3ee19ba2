//! The rule by which dead letters are grouped: a keyed hash of where, what and how a message failed.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{
    Code, Detail, FailedTry, FailureKind, Invalid, Ledger, Message, MessageType, QueueName, Reason,
};

/// The version of the rule by which dead letters are grouped. When the rule changes, the version changes,
/// and a store regroups what the older version grouped.
pub const FINGERPRINT_VERSION: u32 = 1;

/// How much of an error's text counts.
const TEXT_LIMIT_BYTES: usize = 400;

/// A secret of the store. Without it, nobody can find the text behind a cause by trying out texts.
#[derive(Clone)]
pub struct StoreKey([u8; 32]);

impl StoreKey {
    /// The key with these bytes.
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreKey")
    }
}

/// The id of a cause: `v1:7f3a…`. Safe to show.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CauseId(String);

impl CauseId {
    /// Parses an id.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is not a version and sixteen hexadecimal digits.
    pub fn new(text: impl Into<String>) -> Result<Self, Invalid> {
        let text = text.into();
        let digits = text.strip_prefix('v').and_then(|text| text.split_once(':'));
        let is_one = digits.is_some_and(|(version, hash)| {
            !version.is_empty()
                && version.len() <= 3
                && version.bytes().all(|byte| byte.is_ascii_digit())
                && hash.len() == 16
                && hash.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
        });
        if is_one {
            return Ok(Self(text));
        }
        Err(Invalid::new("cause", "is not like v1:0123456789abcdef"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CauseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The properties by which a dead letter is grouped.
#[derive(Debug, Clone, Copy)]
pub struct Fingerprint<'a> {
    /// The queue in which it was dead-lettered.
    pub queue: &'a QueueName,
    /// The type of the message.
    pub message_type: &'a MessageType,
    /// The kind of its last failure.
    pub kind: FailureKind,
    /// The code of its last failure, or of the reason if there is none.
    pub code: &'a Code,
    /// The text of the last error.
    pub detail: Option<&'a Detail>,
}

impl<'a> Fingerprint<'a> {
    /// The fingerprint of a message that becomes a dead letter of `queue`. `tries` are the failures of the last
    /// attempt, which the ledger does not contain yet.
    pub fn of(
        queue: &'a QueueName,
        message: &'a Message,
        tries: &'a [FailedTry],
        reason: &'a Reason,
    ) -> Self {
        let last = last_failure(&message.ledger, tries, reason);
        let (kind, code) =
            last.map_or((FailureKind::Unknown, reason.code()), |last| (last.kind, &last.code));
        let detail = last.map(|last| &last.detail);
        Self { queue, message_type: &message.message_type, kind, code, detail }
    }

    /// The id of the cause. It is the same for the same failure, whatever numbers, ids and quoted
    /// text the error contains.
    pub fn cause(&self, key: &StoreKey) -> CauseId {
        let said = self.detail.map(|detail| gist(detail.reveal())).unwrap_or_default();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("a key may have any length");
        let parts = [
            self.queue.as_str(),
            self.message_type.as_str(),
            self.kind.as_str(),
            self.code.as_str(),
            &said,
        ];
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        let hash = mac.finalize().into_bytes();
        let (first, _) = hash.split_at(8);
        let number = first.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        CauseId(format!("v{FINGERPRINT_VERSION}:{number:016x}"))
    }
}

/// The failure by which a dead letter is grouped: the latest of the last generation. A failure from before a
/// replay does not explain why the message was dead-lettered, and no failure explains it if the workers died.
pub fn last_failure<'a>(
    ledger: &'a Ledger,
    tries: &'a [FailedTry],
    reason: &Reason,
) -> Option<&'a FailedTry> {
    let of_now = |last: &&FailedTry| {
        last.generation == ledger.replayed && *reason.code() != Reason::MAX_DELIVERIES
    };
    tries.last().or_else(|| ledger.last().filter(of_now))
}

/// The words of an error without the parts that differ between messages: quoted text, and words that
/// contain a digit or a character found in ids and addresses.
fn gist(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(TEXT_LIMIT_BYTES)];
    let mut words = String::new();
    for word in unquoted(text).split_whitespace() {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let differs = word.contains(|c: char| c.is_numeric() || matches!(c, '@' | '/' | '=' | '_'));
        if word.is_empty() || differs {
            continue;
        }
        words.extend(word.chars().flat_map(char::to_lowercase));
        words.push(' ');
    }
    words
}

/// The text without quotations. An apostrophe within a word does not open a quotation.
fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open = None;
    let mut before = ' ';
    for c in text.chars() {
        match open {
            Some(end) if c == end => open = None,
            Some(_) => {}
            None => match closing(c).filter(|_| !before.is_alphanumeric()) {
                Some(end) => open = Some(end),
                None => out.push(c),
            },
        }
        before = c;
    }
    out
}

fn closing(c: char) -> Option<char> {
    Some(match c {
        '"' | '\'' | '`' => c,
        '“' | '„' => '”',
        '‘' => '’',
        '«' => '»',
        '<' => '>',
        '(' => ')',
        '[' => ']',
        '{' => '}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(detail: &str) -> CauseId {
        let (queue, message_type) =
            (QueueName::new("lab").unwrap(), MessageType::new("result").unwrap());
        let fingerprint = Fingerprint {
            queue: &queue,
            message_type: &message_type,
            kind: FailureKind::Permanent,
            code: &Code::UNKNOWN,
            detail: Some(&Detail::truncated(detail.to_owned())),
        };
        fingerprint.cause(&StoreKey::new([7; 32]))
    }

    #[test]
    fn numbers_ids_and_quotations_make_no_difference() {
        for (one, other) in [
            ("no patient 17", "no patient 4711"),
            ("no patient \"Doe\" here", "no patient \"van der Berg\" here"),
            ("can't read 'a'", "can't read 'b c'"),
            ("timeout after 30s at 10.0.0.1:80", "timeout after 5s at 10.0.0.2:8080"),
            ("order 6f1c-22ab failed", "order 90aa-11cd failed"),
            ("mail to ann@example.org bounced", "mail to bob@example.com bounced"),
            ("Connection Refused", "connection  refused."),
        ] {
            assert_eq!(cause(one), cause(other), "{one} / {other}");
        }
    }

    #[test]
    fn other_words_are_another_cause() {
        assert_ne!(cause("no patient 17"), cause("no doctor 17"));
        assert_ne!(cause("connection refused"), cause("connection reset"));
    }

    #[test]
    fn every_field_and_the_key_change_the_cause() {
        let (lab, ward) = (QueueName::new("lab").unwrap(), QueueName::new("ward").unwrap());
        let kind = MessageType::new("result").unwrap();
        let of = |queue, failure, key| {
            let code = &Code::UNKNOWN;
            let print =
                Fingerprint { queue, message_type: &kind, kind: failure, code, detail: None };
            print.cause(&StoreKey::new([key; 32]))
        };
        let first = of(&lab, FailureKind::Permanent, 1);
        assert_eq!(first, of(&lab, FailureKind::Permanent, 1));
        assert_ne!(first, of(&ward, FailureKind::Permanent, 1));
        assert_ne!(first, of(&lab, FailureKind::Database, 1));
        assert_ne!(first, of(&lab, FailureKind::Permanent, 2));
    }

    fn failed(generation: u32, code: &str) -> FailedTry {
        let failure = crate::Failure::permanent("no").with_code(Code::new(code).unwrap());
        let at = jiff::Timestamp::UNIX_EPOCH;
        FailedTry { generation, ..FailedTry::new(at, std::time::Duration::ZERO, &failure) }
    }

    #[test]
    fn a_letter_is_grouped_only_by_a_failure_of_its_last_generation() {
        let old = Ledger::restored(1, 1, 0, 0, vec![failed(0, "old")]);
        let replayed = Ledger::restored(1, 0, 0, 1, vec![failed(0, "old")]);
        let (exhausted, crashed) = (Reason::new(Reason::EXHAUSTED, ""), Reason::max_deliveries(3));
        let now = [failed(1, "now")];
        let code = |ledger, tries, reason| {
            last_failure(ledger, tries, reason).map(|last: &FailedTry| last.code.to_string())
        };
        assert_eq!(code(&old, &[], &exhausted).as_deref(), Some("old"));
        assert_eq!(code(&old, &[], &crashed), None);
        assert_eq!(code(&replayed, &[], &exhausted), None);
        assert_eq!(code(&replayed, &now, &exhausted).as_deref(), Some("now"));
    }

    #[test]
    fn valid_ids_are_parsed_and_others_refused() {
        let id = cause("x");
        assert_eq!(CauseId::new(id.as_str()).unwrap(), id);
        for wrong in
            ["", "v1", "v1:", "v:0123456789abcdef", "v1:0123456789ABCDEF", "v1:012345678", "1:x"]
        {
            assert!(CauseId::new(wrong).is_err(), "{wrong}");
        }
    }
}

//! Names and ids: short texts that are validated once, when they are created.

use std::{fmt, str::FromStr, sync::Arc};

use jiff::Timestamp;

/// An invalid value: which field, and why it was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// The field or parameter that was refused.
    pub field: &'static str,
    /// What is wrong and what is accepted, worded to follow the field's name.
    pub problem: String,
}

impl Invalid {
    /// An error that says that `field` has `problem`.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// The longest name in bytes: the limit of AMQP's short strings.
const NAME_LIMIT_BYTES: usize = 255;

fn check(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    if text.len() > NAME_LIMIT_BYTES {
        let problem =
            format!("is {} bytes long, at most {NAME_LIMIT_BYTES} are accepted", text.len());
        return Err(Invalid::new(field, problem));
    }
    if let Some(position) = text.find(char::is_control) {
        let problem = format!("has a control character at byte {position}, use printable text");
        return Err(Invalid::new(field, problem));
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        ///
        /// From 1 to 255 bytes of text without control characters. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and keeps it unchanged.
            ///
            /// # Errors
            ///
            /// [`Invalid`] if it is empty, longer than 255 bytes or contains a control character.
            pub fn new(text: impl AsRef<str>) -> Result<Self, Invalid> {
                let text = text.as_ref();
                check($field, text)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;

            fn try_from(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name!(
    /// The name of a queue within its transport.
    QueueName, "queue name"
);
name!(
    /// The identity that a message keeps through retries and replays. Ids that other systems
    /// assigned may repeat.
    MessageId, "message id"
);
name!(
    /// The id that links the messages of one business event.
    CorrelationId, "correlation id"
);
name!(
    /// Messages with the same key are handled in order, such as those of one patient, account or
    /// order.
    OrderingKey, "ordering key"
);
name!(
    /// The type of a message, by which a router picks its handler.
    MessageType, "message type"
);
name!(
    /// The key by which a client marks repetitions of one request.
    RequestKey, "idempotency key"
);
name!(
    /// The media type of a body.
    ContentType, "content type"
);

impl MessageId {
    /// A new id that sorts by `time` (UUID version 7).
    pub fn generate(time: Timestamp, random: &mut impl rand::Rng) -> Self {
        let mut noise = [0; 10];
        random.fill_bytes(&mut noise);
        let millis = u64::try_from(time.as_millisecond()).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &noise).into_uuid();
        let mut buffer = uuid::Uuid::encode_buffer();
        Self(Arc::from(&*id.hyphenated().encode_lower(&mut buffer)))
    }

    /// An id for a message that came without one. Random, because two equal messages are two messages. The first part is
    /// a digest of the content, so that a message whose id was lost can be matched with what is known of it.
    pub fn assign(content: u64, random: u64) -> Self {
        Self(Arc::from(format!("{ASSIGNED}{content:016x}-{random:016x}")))
    }

    /// The part of an [assigned](Self::assign) id that every message with this content has; `None` for any other id.
    pub fn content_part(&self) -> Option<&str> {
        let (content, random) = self.0.strip_prefix(ASSIGNED)?.split_once('-')?;
        let is_digest =
            |text: &str| text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
        (is_digest(content) && is_digest(random)).then(|| &self.0[..self.0.len() - random.len()])
    }
}

/// How an assigned id begins.
const ASSIGNED: &str = "assigned-";

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        QueueName::new(text).unwrap_err().to_string()
    }

    #[test]
    fn a_name_is_checked_where_it_enters() {
        assert_eq!(problem(""), "queue name is empty");
        assert_eq!(
            problem("a\u{7}"),
            "queue name has a control character at byte 1, use printable text"
        );
        assert!(problem(&"x".repeat(256)).contains("256 bytes"));
        assert_eq!(QueueName::new("labor/größe").unwrap().as_str(), "labor/größe");
    }

    #[test]
    fn equal_messages_get_different_ids_with_the_same_content_part() {
        let [a, b, other] = [(7, 1), (7, 2), (8, 1)].map(|(content, random)| {
            let id = MessageId::assign(content, random);
            (id.content_part().unwrap().to_owned(), id)
        });
        assert_ne!(a.1, b.1);
        assert_eq!(a.0, b.0);
        assert_ne!(a.0, other.0);
        assert_eq!(a.0, "assigned-0000000000000007-");
        for foreign in
            ["m-1", "assigned-", "assigned-7-1", "assigned-0000000000000007-00000000000000ä"]
        {
            assert_eq!(MessageId::new(foreign).unwrap().content_part(), None, "{foreign}");
        }
    }

    #[test]
    fn generated_ids_sort_by_time() {
        let id = |millis| {
            let time = Timestamp::from_millisecond(millis).unwrap();
            MessageId::generate(time, &mut rand::rng())
        };
        assert!(id(1_000) < id(2_000));
        assert_ne!(id(1_000), id(1_000));
        assert_eq!(id(1_000).as_str().len(), 36);
    }
}

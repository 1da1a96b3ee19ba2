//! A dead letter: a message that was set aside, with the reason.

use std::fmt;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::{
    Code, Message, QueueName,
    public_id::{DEAD_LETTER, public_id},
};

public_id!(
    /// The identity of a dead letter, assigned by Bezoar. Message ids may repeat; these are unique within a
    /// transport.
    DeadLetterId, DEAD_LETTER
);

/// A message that was set aside, with everything that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The identity of the dead letter, which is not the message's id.
    pub id: DeadLetterId,
    /// The queue in which it was dead-lettered.
    pub queue: QueueName,
    /// The message with its unchanged body and its ledger.
    pub message: Message,
    /// Why the message was dead-lettered.
    pub reason: Reason,
    /// When the message was dead-lettered.
    pub at: Timestamp,
    /// How it is recognized if the transport hands it out again.
    pub recognition: Recognition,
}

/// How to recognize a dead letter that a transport hands out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recognition {
    /// By its id, which it keeps.
    Id,
    /// By its content: it has no lasting id and gets a new one each time.
    Content {
        /// The session of the transport that handed it out. Two letters from one session are never the same letter,
        /// however similar.
        session: u64,
        /// Whether the transport may have handed it out before, in another session.
        redelivered: bool,
    },
}

impl DeadLetter {
    /// A digest of everything the sender set, and of the replay that sent it last; an id that was only
    /// [assigned](crate::MessageId::assign) does not count. It is equal for copies of one letter,
    /// and for two letters with the same content.
    pub fn digest(&self) -> u64 {
        let message = &self.message;
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        field(message.id.content_part().unwrap_or(message.id.as_str()).as_bytes());
        field(message.message_type.as_str().as_bytes());
        field(message.correlation_id.as_ref().map_or("", |id| id.as_str()).as_bytes());
        field(message.causation_id.as_ref().map_or("", |id| id.as_str()).as_bytes());
        field(message.content_type.as_ref().map_or("", |it| it.as_str()).as_bytes());
        for (name, value) in &message.headers {
            field(name.as_bytes());
            field(value.reveal().as_bytes());
        }
        field(message.body.reveal());
        // One that was replayed and died again is another letter.
        field(&message.ledger.replay.map_or(0, |replay| replay.number()).to_be_bytes());
        let digest = hash.finalize();
        u64::from_be_bytes(std::array::from_fn(|place| digest[place]))
    }
}

/// Why something was decided: a code to group by, and a text for people. Both are safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    code: Code,
    text: String,
}

impl Reason {
    /// The code of a decision to try again.
    pub const RETRY: Code = Code::from_static("retry");
    /// The code of a message whose retries are used up.
    pub const EXHAUSTED: Code = Code::from_static("exhausted");
    /// The code of a failure for which no retry makes sense.
    pub const NOT_RETRYABLE: Code = Code::from_static("not-retryable");
    /// The code of a message that was handed out too often without an outcome.
    pub const MAX_DELIVERIES: Code = Code::from_static("max-deliveries");
    /// The code of a message that keeps failing where its neighbours succeed.
    pub const SUSPECTED: Code = Code::from_static("suspected");
    /// The code of a message that could not be delivered for too long.
    pub const UNDELIVERABLE: Code = Code::from_static("undeliverable");
    /// The code of a message that a broker set aside because somebody rejected it.
    pub const REJECTED: Code = Code::from_static("rejected");

    /// The code of a message that was damaged in its store.
    pub const DAMAGED: Code = Code::from_static("damaged");
    /// The code of a message that expired before it was handled.
    pub const EXPIRED: Code = Code::from_static("expired");

    /// A reason with a text that is safe to show: numbers and names from configuration, never an error's
    /// text.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The message was handed out `deliveries` times, and each time its worker died or lost its lease.
    pub fn max_deliveries(deliveries: u32) -> Self {
        let text = format!("delivered {deliveries} times without an outcome");
        Self::new(Self::MAX_DELIVERIES, text)
    }

    /// The message expired at `at`, before a handler ran.
    pub fn expired(at: Timestamp) -> Self {
        Self::new(Self::EXPIRED, format!("expired at {at}"))
    }

    /// The body is not what the handler expects.
    pub fn undecodable() -> Self {
        Self::new(Code::UNDECODABLE, "Failed to deserialize message")
    }

    /// The store did not return what was sent.
    pub fn damaged() -> Self {
        Self::new(Self::DAMAGED, "stored message does not match its checksum")
    }

    /// The code to group by.
    pub fn code(&self) -> &Code {
        &self.code
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

//! Bezoar's contract with transports and handlers, and all of its decisions as pure functions.
//!
//! Defines what a message is, its history, why it failed, what to do next, and what a transport
//! promises. Nothing here performs I/O, spawns a task or reads the clock: time and randomness are
//! arguments, so that every rule can be tested as a plain function.
//!
//! ```
//! use bezoar_core::{Failure, Ledger, RetryPolicy, Verdict};
//!
//! let decision = RetryPolicy::jobs().decide(
//!     &Ledger::default(),
//!     &Failure::permanent("no such patient"),
//!     &mut rand::rng(),
//! );
//! assert_eq!(decision.verdict, Verdict::DeadLetter);
//! assert_eq!(decision.reason.to_string(), "non-retryable error: permanent");
//! ```

mod admin;
pub mod blame;
mod byte_limit;
mod capabilities;
pub mod catalogue;
mod classification;
mod clock;
mod dead_letter;
mod dead_letter_access;
mod dead_letter_feed;
mod error;
mod failure;
mod ledger;
mod message;
mod message_access;
mod name;
mod pauses;
pub mod poison_retry;
mod policy;
mod public_id;
mod receipt;
mod sensitive;
mod transport;
mod uncounted;

pub use admin::{Depth, Finding, QueueAdmin, Severity};
pub use byte_limit::ByteLimit;
pub use capabilities::{Capabilities, Counting, Leases, SettlementDurability};
pub use classification::{Classification, Classifier};
pub use clock::{Clock, ManualClock, SystemClock, millis, to_millis};
pub use dead_letter::{DeadLetter, DeadLetterId, Reason, Recognition};
pub use dead_letter_access::{DeadLetterAccess, DeadLetterIds, DeadLetterPage};
pub use dead_letter_feed::DeadLetterFeed;
pub use error::{ErrorKind, TransportError};
pub use failure::{Code, Failure, FailureError, FailureKind};
pub use ledger::{FailedTry, HISTORY_LIMIT, Ledger, UncountedFailure, UncountedSummary};
pub use message::{Headers, Message};
pub use message_access::{
    MessageAccess, MessageLocation, PeekPage, PeekPosition, QueueState, QueuedMessage,
};
pub use name::{
    ContentType, CorrelationId, Invalid, MessageId, MessageType, OrderingKey, QueueName, RequestKey,
};
pub use pauses::Pauses;
pub use policy::{
    Backoff, Decision, Jitter, MAX_DELAY, MAX_IMMEDIATE_RETRIES, MAX_RETRY_AFTER, RetryPolicy,
    RetryStrategy, Verdict,
};
pub use public_id::InvalidId;
pub use rand::Rng;
pub use receipt::Receipt;
pub use sensitive::{Body, DETAIL_LIMIT_BYTES, Detail, HeaderValue, Sensitive};
pub use transport::{
    Acceptance, Delivery, Destination, Outgoing, Settlement, SubscribeOptions, Subscription,
    Transport,
};
pub use uncounted::{UncountedDecision, UncountedPolicy};

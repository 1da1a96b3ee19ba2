//! The rules of the poison-queue retry processor, as plain functions and values, and the traits for its queue.
//!
//! They are literal: any refusal and any failure to connect uses up a retry. What routes know about blame and circuit
//! breakers does not apply here.
//!
//! | where | what |
//! | --- | --- |
//! | `options.rs` | how many messages, how often, how long: ranges and defaults |
//! | `fields.rs` | the names of what is read in messages of other programs |
//! | `rules.rs` | what happens before and after a delivery |
//! | `strategy.rs` | when a message is retried |
//! | `queue.rs` | the traits that give access to a queue |

mod fields;
mod options;
mod queue;
mod rules;
mod strategy;

pub use fields::RetryFields;
pub use options::{InvalidPoisonRetry, LONGEST_DELAY, MissingSettings, PoisonRetryOptions};
pub use queue::{PoisonContent, PoisonEnd, PoisonMessage, PoisonQueue};
pub use rules::{BeforeDelivery, DeliveryOutcome, EndpointAnswer, before_delivery, outcome};
pub use strategy::PowersOfMinutes;

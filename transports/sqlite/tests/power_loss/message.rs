//! The messages of the workload: everything about one follows from its number.

use bezoar_core::{Message, MessageId, MessageType, millis};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::promises::MessageNumber;

/// Up to a page and a half, so that rows fit a page, fill it and overflow it.
const BODY_LIMIT_BYTES: usize = 6 * 1024;

pub(crate) fn message(number: MessageNumber) -> Message {
    let id = MessageId::new(number.to_string()).unwrap();
    let message_type = MessageType::new("lab.result").unwrap();
    Message::new(id, message_type, millis(i64::from(number)), body(number))
        .with_header("number", number.to_string())
}

pub(crate) fn body(number: MessageNumber) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(u64::from(number));
    let length = match number % 10 {
        0 => 0,
        1..7 => random.random_range(1..1024),
        _ => random.random_range(1024..=BODY_LIMIT_BYTES),
    };
    let mut body = vec![0; length];
    random.fill(&mut body[..]);
    body
}

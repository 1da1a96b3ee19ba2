//! Dead letters: the headers with their id, time and reason.

use bezoar_core::{
    Code, DeadLetter, DeadLetterId, Message, QueueName, Reason, Recognition, millis,
};
use jiff::Timestamp;
use lapin::{BasicProperties, types::AMQPValue};

use super::{
    Raw,
    header_names::{DEAD_AT, DEAD_ID, REASON, REASON_CODE},
    header_table::{number, shown, string, table_of, text},
    ledger,
    message::{self, Substitutes},
    republish::{bound_headers, inert_properties},
};

/// The properties of a message that is dead-lettered.
pub(crate) fn dead_lettered(
    raw: &Raw,
    message: &Message,
    (id, at, reason): (DeadLetterId, Timestamp, &Reason),
) -> BasicProperties {
    let mut headers = bound_headers(raw, message);
    headers.insert(DEAD_ID.into(), AMQPValue::LongLongInt(id.number()));
    headers.insert(DEAD_AT.into(), AMQPValue::LongLongInt(at.as_millisecond()));
    headers.insert(REASON_CODE.into(), text(reason.code().as_str()));
    headers.insert(REASON.into(), text(&cut(reason.to_string())));
    ledger::write(&mut headers, &message.ledger, Some(&raw.queue));
    inert_properties(&raw.properties).with_headers(headers.into())
}

/// Truncates a reason, so that it leaves room for the other headers.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(2_048));
    text
}

/// The dead letter, if it has an id of ours.
pub(crate) fn read_dead_letter(
    raw: &Raw,
    queue: &QueueName,
    substitutes: Substitutes,
) -> Option<DeadLetter> {
    let headers = table_of(&raw.properties);
    let id = DeadLetterId::from_number(number(&headers, DEAD_ID)?);
    let code = string(&headers, REASON_CODE).and_then(|code| Code::new(code).ok());
    let words = cut(string(&headers, REASON).unwrap_or_default());
    Some(DeadLetter {
        id,
        queue: queue.clone(),
        message: message::read(raw, substitutes),
        reason: Reason::new(code.unwrap_or(Code::UNKNOWN), words),
        at: millis(number(&headers, DEAD_AT).unwrap_or(0)),
        recognition: Recognition::Id,
    })
}

/// Why and when the broker dead-lettered a message, from the latest entry of `x-death`.
pub(crate) fn broker_reason(raw: &Raw, now: Timestamp) -> (Reason, Timestamp) {
    let headers = table_of(&raw.properties);
    let death = headers.get("x-death").and_then(AMQPValue::as_array);
    let latest =
        death.and_then(|death| death.as_slice().first()).and_then(AMQPValue::as_field_table);
    let field = |name: &str| latest.and_then(|latest| latest.inner().get(name));
    let word = field("reason").map(shown).unwrap_or_default();
    let at = field("time").and_then(AMQPValue::as_timestamp);
    let at = at.and_then(|seconds| i64::try_from(seconds).ok());
    // Any client can write this header; only a valid code is shown.
    let reason = match Code::new(word.as_str()) {
        Ok(code) => Reason::new(code, format!("dead-lettered by the broker: {word}")),
        Err(_) => Reason::new(Code::UNKNOWN, "found in the dead-letter queue"),
    };
    (reason, at.map_or(now, |seconds| millis(seconds.saturating_mul(1_000))))
}

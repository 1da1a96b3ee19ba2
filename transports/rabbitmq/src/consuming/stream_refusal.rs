//! Refuses streams: acknowledging removes nothing from a stream, so everything in it would be handled again and again.
//!
//! A passive declaration does not tell the type of a queue, and `basic.get`, which only a stream refuses, would take a
//! message from any other queue. So the queue is declared with a type that no broker has. The broker never creates
//! that, and refuses it for an existing queue by naming the first argument that differs and its value. Arguments that a
//! stream may have, and that the broker compares before the type, are repeated until it names the type.

use bezoar_core::{ErrorKind, QueueName, TransportError};
use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};

use crate::{
    check::findings::read_refusal,
    error::{error, from_lapin, is_access_refused, queue_not_found},
    transport::TransportState,
};

const TYPE: &str = "x-queue-type";
/// A type that no broker has.
const NO_TYPE: &str = "bezoar-asks-for-the-type";
/// The other arguments of a stream. A queue with an argument that is not among them is not a stream.
const STREAM_ARGUMENTS: [&str; 6] = [
    "x-max-length-bytes",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
];

/// What a refused declaration says about a queue.
#[derive(Debug, PartialEq)]
enum Answer {
    Stream,
    Other,
    /// Ask again with this argument, which the queue has.
    Repeat(&'static str, AMQPValue),
}

impl TransportState {
    /// Refuses a stream. A user who may neither configure the queue nor use the management API is not told the type;
    /// the queue is then accepted.
    pub(crate) async fn refuse_stream(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<(), TransportError> {
        let mut arguments = FieldTable::default();
        arguments.insert(TYPE.into(), AMQPValue::LongString(NO_TYPE.into()));
        for _ in 0..=STREAM_ARGUMENTS.len() {
            match self.ask_for_type(queue, &arguments, operation).await? {
                Answer::Stream => return Err(is_a_stream(queue, operation)),
                Answer::Other => return Ok(()),
                Answer::Repeat(name, value) => _ = arguments.insert(name.into(), value),
            }
        }
        Ok(())
    }

    async fn ask_for_type(
        &self,
        queue: &QueueName,
        arguments: &FieldTable,
        operation: &'static str,
    ) -> Result<Answer, TransportError> {
        let channel = self.requests.request_channel(operation).await?;
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        let declare = channel.queue_declare(queue.as_str().into(), durable, arguments.clone());
        match self.requests.with_timeout(declare, operation).await? {
            Err(source) if is_access_refused(&source) => self.managed_type(queue, operation).await,
            Err(source) => match from_lapin(&source, operation) {
                refused if refused.kind == ErrorKind::Unusable => Ok(answer(&source.to_string())),
                failed => Err(failed),
            },
            Ok(_) => Ok(Answer::Other),
        }
    }

    async fn managed_type(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> Result<Answer, TransportError> {
        let Some(management) = &self.management else { return Ok(Answer::Other) };
        let found = management.queue(queue.as_str(), operation).await;
        let is_stream = found.is_ok_and(|it| it.is_some_and(|it| it["type"] == "stream"));
        Ok(if is_stream { Answer::Stream } else { Answer::Other })
    }

    /// The error for a queue that does not exist. A super stream is an exchange, so its name is not that of a queue.
    pub(crate) async fn missing_queue(
        &self,
        queue: &QueueName,
        operation: &'static str,
    ) -> TransportError {
        let missing = queue_not_found(queue, operation);
        match self.has_exchange(queue.as_str(), operation).await {
            Ok(true) => missing.with_source(
                "this is the name of an exchange or a super stream; bind a queue to it and consume that queue",
            ),
            _ => missing,
        }
    }
}

fn is_a_stream(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::Unusable, operation).with_source(format!(
        "{:?} is a stream, from which nothing is removed when it is handled; consume a quorum or classic queue that is \
         bound to the same exchange",
        queue.as_str()
    ))
}

/// What the text of a refusal says.
fn answer(refusal: &str) -> Answer {
    let Some((argument, there, _)) = read_refusal(refusal) else { return Answer::Other };
    if argument == TYPE {
        return if there.contains("'stream'") { Answer::Stream } else { Answer::Other };
    }
    let name = STREAM_ARGUMENTS.iter().find(|name| **name == argument);
    match name.zip(value(&there)) {
        Some((name, value)) => Answer::Repeat(name, value),
        None => Answer::Other,
    }
}

/// The value in `the value '7' of type 'long'`. The broker compares whole numbers of any type by their value.
fn value(there: &str) -> Option<AMQPValue> {
    let (value, kind) = there.strip_prefix("the value '")?.rsplit_once("' of type '")?;
    Some(match kind.trim_end_matches('\'') {
        "longstr" => AMQPValue::LongString(value.into()),
        _ => AMQPValue::LongLongInt(value.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(refusal: &str, expected: Answer) {
        let text = format!("PRECONDITION_FAILED - inequivalent {refusal}");
        assert_eq!(answer(&text), expected);
    }

    #[test]
    fn a_refusal_tells_the_type_or_which_argument_to_repeat() {
        let about = "for queue 'q' in vhost '/': received";
        check(&format!("arg 'x-queue-type' {about} 'x' but current is 'stream'"), Answer::Stream);
        check(&format!("arg 'x-queue-type' {about} 'x' but current is 'quorum'"), Answer::Other);
        let none = format!(
            "arg 'x-queue-type' {about} the value 'x' of type 'longstr' but current is none"
        );
        check(&none, Answer::Other);
        check(&format!("arg 'durable' {about} 'true' but current is 'false'"), Answer::Other);
        let is = |value: &str| format!("{about} none but current is the value {value}");
        let repeat = Answer::Repeat("x-max-length-bytes", AMQPValue::LongLongInt(7));
        check(&format!("arg 'x-max-length-bytes' {}", is("'7' of type 'long'")), repeat);
        let repeat = Answer::Repeat("x-max-age", AMQPValue::LongString("7D".into()));
        check(&format!("arg 'x-max-age' {}", is("'7D' of type 'longstr'")), repeat);
        check(&format!("arg 'x-message-ttl' {}", is("'7' of type 'long'")), Answer::Other);
    }
}

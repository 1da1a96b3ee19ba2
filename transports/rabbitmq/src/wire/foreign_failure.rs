//! Dead letters of other frameworks: why and when a message failed, and which queue it came from.
//!
//! NServiceBus moves failed messages to the queue `error`, MassTransit to `QUEUE_error`, with headers that tell about the
//! failure. Any client can write these headers, so a name is used only if it looks like one. The text of the exception
//! may be personal data: it becomes the detail of an attempt, which is shown only on request.

use bezoar_core::{
    Code, FailedTry, Failure, FailureKind, Ledger, Message, QueueName, Reason, millis,
};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use percent_encoding::percent_decode_str;

use super::{
    Raw,
    header_names::QUEUE,
    header_table::{Table, string, table_of},
};

/// The headers of one framework.
struct Framework {
    name: &'static str,
    exception: &'static str,
    text: &'static str,
    time: &'static str,
    queue: &'static str,
}

const FRAMEWORKS: [Framework; 2] = [
    Framework {
        name: "NServiceBus",
        exception: "NServiceBus.ExceptionInfo.ExceptionType",
        text: "NServiceBus.ExceptionInfo.Message",
        time: "NServiceBus.TimeOfFailure",
        queue: "NServiceBus.FailedQ",
    },
    Framework {
        name: "MassTransit",
        exception: "MT-Fault-ExceptionType",
        text: "MT-Fault-Message",
        time: "MT-Fault-Timestamp",
        queue: "MT-Fault-InputAddress",
    },
];

/// A failure that another framework has recorded.
pub(crate) struct ForeignFailure {
    pub(crate) reason: Reason,
    pub(crate) at: Option<Timestamp>,
    failed_try: FailedTry,
}

impl ForeignFailure {
    /// Records the failure in the message's ledger, unless that has a history of its own.
    pub(crate) fn record(&self, message: &mut Message) {
        if message.ledger.history().is_empty() {
            message.ledger = Ledger::restored(1, 1, 0, 0, vec![self.failed_try.clone()]);
        }
    }
}

/// The failure that another framework has recorded in the headers.
pub(crate) fn read(raw: &Raw, now: Timestamp) -> Option<ForeignFailure> {
    let headers = table_of(&raw.properties);
    FRAMEWORKS.iter().find_map(|framework| framework.failure(&headers, now))
}

/// The queue that a message failed in, or was to return to.
pub(crate) fn origin_queue(raw: &Raw) -> Option<QueueName> {
    let headers = table_of(&raw.properties);
    let foreign = || FRAMEWORKS.iter().find_map(|framework| framework.origin(&headers));
    string(&headers, QUEUE).or_else(foreign).and_then(|name| QueueName::new(name).ok())
}

impl Framework {
    fn failure(&self, headers: &Table, now: Timestamp) -> Option<ForeignFailure> {
        let exception = string(headers, self.exception)?;
        let code = Code::new(exception).unwrap_or(Code::UNKNOWN);
        let at = string(headers, self.time).and_then(|text| time(&text)).map(|at| at.min(now));
        let text = string(headers, self.text).unwrap_or_default();
        let failure = Failure::new(FailureKind::Unknown, text).with_code(code.clone());
        Some(ForeignFailure {
            reason: Reason::new(code.clone(), format!("failed in {}: {code}", self.name)),
            at,
            failed_try: FailedTry::new(at.unwrap_or(now), std::time::Duration::ZERO, &failure),
        })
    }

    /// The name of the queue: a name, or the last part of an address.
    fn origin(&self, headers: &Table) -> Option<String> {
        let address = string(headers, self.queue)?;
        let path = address.split(['?', ';']).next().unwrap_or_default();
        let name = match path.contains("://") {
            true => path.rsplit('/').next().unwrap_or_default(),
            false => path,
        };
        Some(percent_decode_str(name).decode_utf8_lossy().into_owned())
    }
}

/// A time as MassTransit writes it, or as NServiceBus does: `2026-11-17 03:14:15:926535 Z`.
fn time(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    let (seconds, micros) = text.strip_suffix(" Z")?.rsplit_once(':')?;
    let whole = DateTime::strptime("%Y-%m-%d %H:%M:%S", seconds).ok()?;
    let whole = whole.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let micros: i64 = micros.parse().ok()?;
    Some(millis(whole.as_millisecond().saturating_add(micros / 1_000)))
}

#[cfg(test)]
mod tests {
    use lapin::{BasicProperties, types::FieldTable};

    use super::{super::header_table::text, *};

    fn raw(headers: &[(&str, &str)]) -> Raw {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), text(value));
        }
        Raw {
            properties: BasicProperties::default().with_headers(table),
            body: bytes::Bytes::new(),
            exchange: "".into(),
            routing_key: "error".into(),
            queue: QueueName::new("error").unwrap(),
        }
    }

    fn now() -> Timestamp {
        "2026-11-17T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_headers_of_nservicebus_are_understood() {
        let raw = raw(&[
            ("NServiceBus.ExceptionInfo.ExceptionType", "System.TimeoutException"),
            ("NServiceBus.ExceptionInfo.Message", "CANARY"),
            ("NServiceBus.TimeOfFailure", "2026-11-17 03:14:15:926535 Z"),
            ("NServiceBus.FailedQ", "Sales"),
        ]);
        let failure = read(&raw, now()).unwrap();
        assert_eq!(failure.reason.code().as_str(), "System.TimeoutException");
        assert_eq!(failure.reason.to_string(), "failed in NServiceBus: System.TimeoutException");
        assert_eq!(failure.at.unwrap().to_string(), "2026-11-17T03:14:15.926Z");
        assert_eq!(failure.failed_try.detail.reveal(), "CANARY");
        assert_eq!(origin_queue(&raw).unwrap().as_str(), "Sales");
    }

    #[test]
    fn the_headers_of_masstransit_are_understood() {
        let raw = raw(&[
            ("MT-Fault-ExceptionType", "System.InvalidOperationException"),
            ("MT-Fault-Message", "CANARY"),
            ("MT-Fault-Timestamp", "2026-11-17T03:14:15.9265350Z"),
            ("MT-Fault-InputAddress", "rabbitmq://rabbit.example.org/lab/submit%20order?bind=true"),
        ]);
        let failure = read(&raw, now()).unwrap();
        assert_eq!(failure.reason.code().as_str(), "System.InvalidOperationException");
        assert_eq!(failure.at.unwrap().as_millisecond() % 1_000, 926);
        assert_eq!(origin_queue(&raw).unwrap().as_str(), "submit order");
    }

    #[test]
    fn what_does_not_look_like_a_name_is_not_shown() {
        let raw = raw(&[("MT-Fault-ExceptionType", "Jane Doe, born 1970-01-01")]);
        let failure = read(&raw, now()).unwrap();
        assert!(!failure.reason.to_string().contains("Jane"), "{}", failure.reason);
        assert!(read(&self::raw(&[]), now()).is_none());
    }
}

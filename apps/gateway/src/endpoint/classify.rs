//! Classifies replies, as a pure function.

use std::time::Duration;

use bezoar::{Code, Detail, Failure, FailureKind, blame::CallOutcome};
use http::StatusCode;
use jiff::Timestamp;

use super::{
    AckCode, CallErrorKind, CallReport,
    call_report::CallEnd,
    client::NoReply,
    hl7::Acknowledgement,
    problem::problem,
    reply::{End, EndpointReply},
    retry_after::retry_after,
};

/// How much of a reply is stored that is not a problem document.
const TEXT_LIMIT_BYTES: usize = 1024;

/// The meaning of a reply, or of its absence.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The message is done.
    Done,
    /// It is not: the outcome of the call, and the failure.
    NotDone(CallOutcome, Failure),
    /// The message cannot be sent, which says nothing about the endpoint.
    NotSent(Failure),
    /// The address is not allowed: the route pauses until an operator has looked at it.
    Denied(Code),
}

/// What a call means. `Retry-After` is relative to `now` and limited to `most`.
pub(super) fn classify(report: &CallReport, now: Timestamp, most: Duration) -> Meaning {
    match &report.0 {
        CallEnd::Unsendable(unsendable) => Meaning::NotSent(unsendable.failure()),
        CallEnd::Replied(reply) => classify_reply(reply, now, most),
        CallEnd::Acknowledged { ack: Ok(ack), .. } => classify_ack(ack),
        CallEnd::Acknowledged { ack: Err(bad), .. } => {
            Meaning::NotDone(CallOutcome::Unacknowledged, bad.failure())
        }
        CallEnd::NoReply(no_reply) => classify_no_reply(no_reply),
    }
}

fn classify_reply(reply: &EndpointReply, now: Timestamp, most: Duration) -> Meaning {
    let Some(kind) = failure_kind(reply.status) else {
        return match &reply.end {
            End::Broken(error) => Meaning::NotDone(CallOutcome::Failed, error.failure()),
            _ => Meaning::Done,
        };
    };
    match &reply.end {
        // An incomplete reply neither completes a message nor dead-letters it.
        End::Broken(error) if !kind.is_retryable() => {
            Meaning::NotDone(CallOutcome::Failed, error.failure())
        }
        _ => not_done(kind, reply, now, most),
    }
}

/// What a failure means. An endpoint that names its kind has answered: no proxy did. So a 502 to 504 with a kind counts.
/// Only a request to wait is what it is, whatever the kind. Which status is evidence of what stays the same, so that a wrong
/// credential costs a few messages and not the queue.
fn not_done(kind: FailureKind, reply: &EndpointReply, now: Timestamp, most: Duration) -> Meaning {
    let (mut failure, stated) = failure(kind, reply, now, most);
    let mut outcome = outcome(reply.status, failure.retry_after);
    let asks_to_wait = matches!(outcome, CallOutcome::Throttled { .. });
    if let Some(stated) = stated.filter(|_| !asks_to_wait && reply.end == End::Complete) {
        failure.kind = stated;
        if let CallOutcome::Ambiguous { .. } = outcome {
            outcome = CallOutcome::Failed;
        }
    }
    Meaning::NotDone(outcome, failure)
}

/// `AE` is like a 500: about the message, as far as anybody knows, and evidence if all others get it too. `AR` is like a
/// 422: the final answer about one message, and a sign of life.
fn classify_ack(ack: &Acknowledgement) -> Meaning {
    let (outcome, kind) = match ack.code {
        AckCode::ApplicationAccept | AckCode::CommitAccept => return Meaning::Done,
        AckCode::ApplicationError | AckCode::CommitError => {
            (CallOutcome::Failed, FailureKind::ExternalService)
        }
        AckCode::ApplicationReject | AckCode::CommitReject => {
            (CallOutcome::Answered, FailureKind::Permanent)
        }
    };
    let failure = Failure::with_detail(kind, ack.detail.clone()).with_code(ack.code.code());
    Meaning::NotDone(outcome, failure)
}

fn classify_no_reply(no_reply: &NoReply) -> Meaning {
    use CallErrorKind as Kind;
    let fresh_connection = no_reply.fresh_connection;
    let outcome = match no_reply.error.kind {
        Kind::Denied => return Meaning::Denied(Kind::Denied.code()),
        Kind::Dns
        | Kind::Refused
        | Kind::Unreachable
        | Kind::ConnectTimeout
        | Kind::Connect
        | Kind::Tls => CallOutcome::Unsent,
        Kind::Reset => CallOutcome::Ambiguous { fresh_connection },
        Kind::Timeout | Kind::Malformed | Kind::TooLarge | Kind::Truncated => CallOutcome::Failed,
    };
    Meaning::NotDone(outcome, no_reply.error.failure())
}

/// The kind of failure of a status; `None` for success.
fn failure_kind(status: StatusCode) -> Option<FailureKind> {
    Some(match status.as_u16() {
        200..300 => return None,
        401 | 403 => FailureKind::Unauthorized,
        404 => FailureKind::NotFound,
        408 | 425 | 429 => FailureKind::Transient,
        0..500 => FailureKind::Permanent,
        // Statuses above 599 are treated as 500 (RFC 9110, 15).
        500.. => FailureKind::ExternalService,
    })
}

/// What a status other than success says about the message and the endpoint.
fn outcome(status: StatusCode, after: Option<Duration>) -> CallOutcome {
    match status.as_u16() {
        300..400 | 401 | 403 | 404 | 405 => CallOutcome::Misdirected,
        410 => CallOutcome::Gone,
        429 => CallOutcome::Throttled { after },
        503 if after.is_some() => CallOutcome::Throttled { after },
        502..=504 => CallOutcome::Ambiguous { fresh_connection: false },
        0..500 => CallOutcome::Answered,
        500.. => CallOutcome::Failed,
    }
}

/// The failure according to the status, and the kind that the endpoint specified.
fn failure(
    kind: FailureKind,
    reply: &EndpointReply,
    now: Timestamp,
    most: Duration,
) -> (Failure, Option<FailureKind>) {
    let problem = problem(&reply.headers, &reply.body).unwrap_or_default();
    let detail = problem.text.unwrap_or_else(|| beginning(&reply.body));
    let code = problem.code.unwrap_or_else(|| status_code(reply.status));
    let mut failure = Failure::with_detail(kind, detail).with_code(code);
    failure.retry_after = retry_after(&reply.headers, now, most);
    (failure, problem.kind)
}

fn status_code(status: StatusCode) -> Code {
    Code::new(format!("http.{}", status.as_u16())).expect("a word and a number are a code")
}

fn beginning(body: &[u8]) -> Detail {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_LIMIT_BYTES)]);
    Detail::truncated(text.into_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, header};
    use proptest::prelude::*;

    use super::*;
    use crate::endpoint::{CallError, CallErrorKind};

    const MINUTE: Duration = Duration::from_secs(60);

    fn reply(status: u16, headers: &[(HeaderName, &str)], body: &[u8]) -> EndpointReply {
        let pair = |(name, value): &(HeaderName, &str)| {
            (name.clone(), HeaderValue::from_str(value).unwrap())
        };
        EndpointReply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.iter().map(pair).collect::<HeaderMap>(),
            body: body.to_vec(),
            end: End::Complete,
        }
    }

    fn shown(reply: &EndpointReply) -> String {
        match classify_reply(reply, Timestamp::UNIX_EPOCH, MINUTE) {
            Meaning::Done => "done".to_owned(),
            Meaning::Denied(code) => format!("denied {code}"),
            Meaning::NotSent(failure) => format!("not sent {}", failure.code),
            Meaning::NotDone(outcome, failure) => {
                let outcome = format!("{outcome:?}").to_lowercase();
                let word = outcome.split(' ').next().unwrap_or_default();
                format!("{word} {} {}", failure.kind, failure.code)
            }
        }
    }

    fn failure_of(reply: &EndpointReply) -> Failure {
        match classify_reply(reply, Timestamp::UNIX_EPOCH, MINUTE) {
            Meaning::NotDone(_, failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_status_has_its_meaning() {
        let table = [
            (101, "answered permanent http.101"),
            (200, "done"),
            (204, "done"),
            (299, "done"),
            (300, "misdirected permanent http.300"),
            (301, "misdirected permanent http.301"),
            (308, "misdirected permanent http.308"),
            (400, "answered permanent http.400"),
            (401, "misdirected unauthorized http.401"),
            (402, "answered permanent http.402"),
            (403, "misdirected unauthorized http.403"),
            (404, "misdirected not found http.404"),
            (405, "misdirected permanent http.405"),
            (408, "answered transient http.408"),
            (409, "answered permanent http.409"),
            (410, "gone permanent http.410"),
            (413, "answered permanent http.413"),
            (422, "answered permanent http.422"),
            (425, "answered transient http.425"),
            (429, "throttled transient http.429"),
            (431, "answered permanent http.431"),
            (499, "answered permanent http.499"),
            (500, "failed external service http.500"),
            (501, "failed external service http.501"),
            (502, "ambiguous external service http.502"),
            (503, "ambiguous external service http.503"),
            (504, "ambiguous external service http.504"),
            (505, "failed external service http.505"),
            (599, "failed external service http.599"),
            (600, "failed external service http.600"),
            (999, "failed external service http.999"),
        ];
        for (status, expected) in table {
            assert_eq!(shown(&reply(status, &[], b"")), expected);
        }
    }

    #[test]
    fn an_incomplete_reply_is_never_final() {
        let broken = |status| EndpointReply {
            end: End::Broken(CallError::plain(CallErrorKind::Truncated)),
            ..reply(status, &[], b"{")
        };
        for status in [101, 200, 204, 301, 400, 401, 410, 422] {
            assert_eq!(shown(&broken(status)), "failed transient reply.truncated", "{status}");
        }
        for (status, expected) in [
            (404, "misdirected not found http.404"),
            (429, "throttled transient http.429"),
            (503, "ambiguous external service http.503"),
        ] {
            assert_eq!(shown(&broken(status)), expected);
        }
    }

    #[test]
    fn an_overlong_reply_means_what_its_status_says() {
        let long =
            |status| EndpointReply { end: End::Bounded, ..reply(status, &[], &[b'x'; 65_536]) };
        assert_eq!(shown(&long(200)), "done");
        assert_eq!(shown(&long(422)), "answered permanent http.422");
        assert_eq!(failure_of(&long(422)).detail.len(), 1024);
    }

    #[test]
    fn a_problem_gives_code_and_detail() {
        let content_type = (header::CONTENT_TYPE, "application/problem+json");
        let body = br#"{"type": "https://h/problems/out-of-stock", "detail": "CANARY"}"#;
        let failure = failure_of(&reply(422, &[content_type], body));
        assert_eq!(failure.code.as_str(), "problems/out-of-stock");
        assert_eq!(failure.detail.reveal(), "CANARY");
        assert!(!format!("{failure:?}").contains("CANARY"));
    }

    #[test]
    fn an_endpoint_says_which_kind_its_failure_is() {
        let said = |status, kind: &str, retry_after: Option<&str>| {
            let mut headers = vec![(header::CONTENT_TYPE, "application/problem+json")];
            headers.extend(retry_after.map(|seconds| (header::RETRY_AFTER, seconds)));
            shown(&reply(status, &headers, format!(r#"{{"kind": "{kind}"}}"#).as_bytes()))
        };
        for (status, kind, retry_after, expected) in [
            // It decides whether to retry.
            (422, "transient", None, "answered transient http.422"),
            (400, "not_found", None, "answered not found http.400"),
            (409, "database", None, "answered database http.409"),
            (500, "permanent", None, "failed permanent http.500"),
            (500, "unauthorized", None, "failed unauthorized http.500"),
            (500, "ai_service", None, "failed AI service http.500"),
            (404, "permanent", None, "misdirected permanent http.404"),
            (401, "transient", None, "misdirected transient http.401"),
            (408, "permanent", None, "answered permanent http.408"),
            // It makes a 5xx count.
            (502, "database", None, "failed database http.502"),
            (503, "external service", None, "failed external service http.503"),
            (504, "permanent", None, "failed permanent http.504"),
            // A request to wait stays one, and the longest wait too.
            (429, "permanent", None, "throttled transient http.429"),
            (503, "permanent", Some("7"), "throttled external service http.503"),
            (500, "permanent", Some("7"), "failed permanent http.500"),
            (410, "transient", None, "gone transient http.410"),
            // What is no kind changes nothing, nor does a success with one.
            (503, "fatal", None, "ambiguous external service http.503"),
            (200, "permanent", None, "done"),
        ] {
            assert_eq!(said(status, kind, retry_after), expected, "{status} {kind}");
        }
    }

    #[test]
    fn an_incomplete_reply_has_no_kind() {
        let body = br#"{"kind": "permanent"}"#;
        let content_type = (header::CONTENT_TYPE, "application/problem+json");
        let broken = EndpointReply {
            end: End::Broken(CallError::plain(CallErrorKind::Truncated)),
            ..reply(503, &[content_type], body)
        };
        assert_eq!(shown(&broken), "ambiguous external service http.503");
    }

    #[test]
    fn other_text_is_kept_as_detail_only() {
        let failure = failure_of(&reply(500, &[], b"no disk \xff for M\xc3\xbcller"));
        assert_eq!(failure.detail.reveal(), "no disk \u{fffd} for Müller");
        assert_eq!(failure.code.as_str(), "http.500");
    }

    #[test]
    fn retry_after_is_kept_within_its_bound() {
        let asks = |text| failure_of(&reply(503, &[(header::RETRY_AFTER, text)], b"")).retry_after;
        assert_eq!(asks("7"), Some(Duration::from_secs(7)));
        assert_eq!(asks("86400"), Some(MINUTE));
        assert_eq!(asks("later"), None);
    }

    #[test]
    fn an_endpoint_that_says_when_to_come_back_asks_to_wait() {
        let asks = |status| {
            let reply = reply(status, &[(header::RETRY_AFTER, "7")], b"");
            let Meaning::NotDone(outcome, _) =
                classify_reply(&reply, Timestamp::UNIX_EPOCH, MINUTE)
            else {
                panic!("{status}")
            };
            outcome
        };
        let asked = CallOutcome::Throttled { after: Some(Duration::from_secs(7)) };
        assert_eq!((asks(429), asks(503)), (asked, asked));
        assert_eq!(asks(500), CallOutcome::Failed);
        assert_eq!(asks(502), CallOutcome::Ambiguous { fresh_connection: false });
    }

    #[test]
    fn no_reply_means_unsent_ambiguous_or_failed() {
        let table = [
            (CallErrorKind::Dns, CallOutcome::Unsent),
            (CallErrorKind::Refused, CallOutcome::Unsent),
            (CallErrorKind::Unreachable, CallOutcome::Unsent),
            (CallErrorKind::ConnectTimeout, CallOutcome::Unsent),
            (CallErrorKind::Connect, CallOutcome::Unsent),
            (CallErrorKind::Tls, CallOutcome::Unsent),
            (CallErrorKind::Reset, CallOutcome::Ambiguous { fresh_connection: true }),
            (CallErrorKind::Timeout, CallOutcome::Failed),
            (CallErrorKind::Malformed, CallOutcome::Failed),
            (CallErrorKind::TooLarge, CallOutcome::Failed),
            (CallErrorKind::Truncated, CallOutcome::Failed),
        ];
        for (kind, expected) in table {
            let error = CallError::plain(kind);
            let expected = Meaning::NotDone(expected, error.failure());
            let no_reply = NoReply { error, fresh_connection: true };
            assert_eq!(classify_no_reply(&no_reply), expected);
        }
        let denied =
            NoReply { error: CallError::plain(CallErrorKind::Denied), fresh_connection: false };
        assert_eq!(classify_no_reply(&denied), Meaning::Denied(CallErrorKind::Denied.code()));
    }

    proptest! {
        #[test]
        fn any_reply_has_a_meaning(
            status in 100_u16..1000,
            retry_after: Vec<u8>,
            content_type: Vec<u8>,
            body: Vec<u8>,
        ) {
            let mut reply = reply(status, &[], &body);
            for (name, bytes) in
                [(header::RETRY_AFTER, retry_after), (header::CONTENT_TYPE, content_type)]
            {
                reply.headers.extend(HeaderValue::from_bytes(&bytes).ok().map(|it| (name, it)));
            }
            prop_assert_eq!(shown(&reply) == "done", (200..300).contains(&status));
        }
    }
}

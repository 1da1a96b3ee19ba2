//! What a reply means: a pure function.

use std::time::Duration;

use bezoar::{Code, Detail, Failure, FailureKind};
use http::StatusCode;
use jiff::Timestamp;

use super::{
    problem::problem,
    reply::{End, Reply},
    retry_after::retry_after,
};

/// How much of a reply that is no problem description is kept.
const TEXT_LIMIT_BYTES: usize = 1024;

/// What a reply means for the message and for the endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The message is done.
    Done,
    /// The message failed, and the next one might not.
    Failed(Failure),
    /// The message failed as every other would: the breaker counts it.
    Down(Failure),
    /// No message may be sent there any more, until somebody has looked.
    Pause(Code),
}

/// What a reply means. `Retry-After` counts from `now` and is cut to `most`.
pub(super) fn classify(reply: &Reply, now: Timestamp, most: Duration) -> Outcome {
    let outcome = match by_status(reply.status) {
        Meaning::Done => Outcome::Done,
        Meaning::Pause => Outcome::Pause(status_code(reply.status)),
        Meaning::Failed(kind) => Outcome::Failed(failure(kind, reply, now, most)),
        Meaning::Down(kind) => Outcome::Down(failure(kind, reply, now, most)),
    };
    match &reply.end {
        End::Broken(trouble) if is_final(&outcome) => Outcome::Down(trouble.failure()),
        _ => outcome,
    }
}

enum Meaning {
    Done,
    Failed(FailureKind),
    Down(FailureKind),
    Pause,
}

fn by_status(status: StatusCode) -> Meaning {
    use FailureKind::{ExternalService, NotFound, Permanent, Transient, Unauthorized};
    match status.as_u16() {
        200..300 => Meaning::Done,
        // A wrong URL, like a wrong credential, should cost a handful of messages and not the queue.
        300..400 => Meaning::Down(Permanent),
        401 | 403 => Meaning::Down(Unauthorized),
        404 => Meaning::Failed(NotFound),
        408 | 425 => Meaning::Failed(Transient),
        410 => Meaning::Pause,
        429 => Meaning::Down(Transient),
        0..500 => Meaning::Failed(Permanent),
        // What is above 599 is to be treated as 500 (RFC 9110, 15).
        500.. => Meaning::Down(ExternalService),
    }
}

/// A message is neither done nor given up on the strength of half a reply.
fn is_final(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done | Outcome::Pause(_) => true,
        Outcome::Failed(failure) | Outcome::Down(failure) => !failure.kind.is_retryable(),
    }
}

fn failure(kind: FailureKind, reply: &Reply, now: Timestamp, most: Duration) -> Failure {
    let problem = problem(&reply.headers, &reply.body);
    let (code, text) = problem.map_or((None, None), |problem| (problem.code, problem.text));
    Failure {
        kind,
        code: code.unwrap_or_else(|| status_code(reply.status)),
        detail: text.unwrap_or_else(|| beginning(&reply.body)),
        retry_after: retry_after(&reply.headers, now, most),
    }
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
    use crate::endpoint::{Trouble, TroubleKind};

    const MINUTE: Duration = Duration::from_secs(60);

    fn reply(status: u16, headers: &[(HeaderName, &str)], body: &[u8]) -> Reply {
        let pair = |(name, value): &(HeaderName, &str)| {
            (name.clone(), HeaderValue::from_str(value).unwrap())
        };
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: headers.iter().map(pair).collect::<HeaderMap>(),
            body: body.to_vec(),
            end: End::Complete,
            switch: None,
        }
    }

    fn shown(reply: &Reply) -> String {
        match classify(reply, Timestamp::UNIX_EPOCH, MINUTE) {
            Outcome::Done => "done".to_owned(),
            Outcome::Pause(code) => format!("pause {code}"),
            Outcome::Failed(failure) => format!("failed {} {}", failure.kind, failure.code),
            Outcome::Down(failure) => format!("down {} {}", failure.kind, failure.code),
        }
    }

    fn failure_of(reply: &Reply) -> Failure {
        match classify(reply, Timestamp::UNIX_EPOCH, MINUTE) {
            Outcome::Failed(failure) | Outcome::Down(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_status_has_its_meaning() {
        let table = [
            (101, "failed permanent http.101"),
            (200, "done"),
            (204, "done"),
            (299, "done"),
            (300, "down permanent http.300"),
            (301, "down permanent http.301"),
            (308, "down permanent http.308"),
            (400, "failed permanent http.400"),
            (401, "down unauthorized http.401"),
            (402, "failed permanent http.402"),
            (403, "down unauthorized http.403"),
            (404, "failed not found http.404"),
            (405, "failed permanent http.405"),
            (408, "failed transient http.408"),
            (409, "failed permanent http.409"),
            (410, "pause http.410"),
            (413, "failed permanent http.413"),
            (422, "failed permanent http.422"),
            (425, "failed transient http.425"),
            (429, "down transient http.429"),
            (431, "failed permanent http.431"),
            (499, "failed permanent http.499"),
            (500, "down external service http.500"),
            (503, "down external service http.503"),
            (599, "down external service http.599"),
            (600, "down external service http.600"),
            (999, "down external service http.999"),
        ];
        for (status, expected) in table {
            assert_eq!(shown(&reply(status, &[], b"")), expected);
        }
    }

    #[test]
    fn half_a_reply_is_never_the_last_word() {
        let broken = |status| Reply {
            end: End::Broken(Trouble::plain(TroubleKind::Truncated)),
            ..reply(status, &[], b"{")
        };
        for status in [101, 200, 204, 301, 400, 401, 410, 422] {
            assert_eq!(shown(&broken(status)), "down transient reply.truncated", "{status}");
        }
        for (status, expected) in [
            (404, "failed not found http.404"),
            (429, "down transient http.429"),
            (503, "down external service http.503"),
        ] {
            assert_eq!(shown(&broken(status)), expected);
        }
    }

    #[test]
    fn a_reply_longer_than_anybody_wants_means_what_its_status_says() {
        let long = |status| Reply { end: End::Bounded, ..reply(status, &[], &[b'x'; 65_536]) };
        assert_eq!(shown(&long(200)), "done");
        assert_eq!(shown(&long(422)), "failed permanent http.422");
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

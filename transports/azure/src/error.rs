//! Azure's errors as errors of the contract.
//!
//! The official crate's errors are never passed on as they are: their texts contain URLs, and URLs contain signatures
//! and pop receipts. What is shown is the status, Azure's error code, and what to do.

use std::{error::Error, io, iter::successors, time::Duration};

use azure_core::error::ErrorKind as AzureKind;
use bezoar_core::{Clock, ErrorKind, QueueName, TransportError};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

pub(crate) const TRANSPORT: &str = "azurequeue";
/// The longest delay and lease that Azure accepts: 7 days.
pub const LONGEST_DELAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Azure refuses a signed request whose time differs from its own by more than this.
const CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

/// A request that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// What happened and what to do, without a secret.
    pub(crate) text: String,
}

/// What a failed request means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    QueueNotFound,
    BlobNotFound,
    ContainerNotFound,
    AlreadyExists,
    MessageNotFound,
    /// The pop receipt is not the latest one: somebody else has the message.
    StaleReceipt,
    Throttled(Option<Duration>),
    NotAuthorized,
    /// The request was never sent, or the server refused it for the moment.
    Unavailable,
    /// The request may or may not have taken effect.
    NoAnswer,
    Other,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Whether the request certainly changed nothing.
    pub(crate) fn changed_nothing(&self) -> bool {
        match self.kind {
            // 503 is too weak a promise: whatever depends on it is gone for good.
            FaultKind::NoAnswer | FaultKind::Throttled(_) => false,
            _ => true,
        }
    }

    /// The error for a request that changes nothing, or that can be repeated without harm.
    pub(crate) fn repeatable(self, queue: &QueueName, operation: &'static str) -> TransportError {
        let kind = match self.kind {
            FaultKind::NoAnswer => FaultKind::Unavailable,
            kind => kind,
        };
        Self { kind, ..self }.into_error(queue, operation)
    }

    /// The error of a request about the whole account, which can be repeated without harm.
    pub(crate) fn of_account(self, operation: &'static str) -> TransportError {
        let kind = match self.kind {
            FaultKind::NoAnswer => ErrorKind::Unavailable,
            kind => kind.into(),
        };
        error(kind, operation).with_source(self.text)
    }

    pub(crate) fn into_error(self, queue: &QueueName, operation: &'static str) -> TransportError {
        let kind = match self.kind {
            FaultKind::QueueNotFound => ErrorKind::QueueNotFound(queue.clone()),
            kind => kind.into(),
        };
        error(kind, operation).with_source(self.text)
    }
}

impl From<FaultKind> for ErrorKind {
    /// The kinds of the contract, in one `match`. Who knows the queue names it instead.
    fn from(kind: FaultKind) -> Self {
        match kind {
            FaultKind::MessageNotFound | FaultKind::StaleReceipt => ErrorKind::LeaseLost,
            FaultKind::Throttled(retry_after) => ErrorKind::Throttled { retry_after },
            FaultKind::NotAuthorized => ErrorKind::NotAuthorized,
            FaultKind::Unavailable => ErrorKind::Unavailable,
            FaultKind::NoAnswer => ErrorKind::OutcomeUnknown,
            FaultKind::QueueNotFound | FaultKind::BlobNotFound | FaultKind::ContainerNotFound => {
                ErrorKind::Unusable
            }
            FaultKind::AlreadyExists | FaultKind::Other => ErrorKind::Other,
        }
    }
}

/// What is known about the account when a request fails.
#[derive(Debug, Clone)]
pub(crate) struct FaultContext {
    /// When the shared access signature expires.
    pub(crate) sas_expiry: Option<Timestamp>,
    /// What to check if there is no token.
    pub(crate) no_token: &'static str,
    pub(crate) clock: std::sync::Arc<dyn Clock>,
}

impl FaultContext {
    /// What an error of the official crate means.
    pub(crate) fn fault(&self, failed: &azure_core::Error) -> Fault {
        match failed.kind() {
            AzureKind::HttpResponse { status, error_code, raw_response } => {
                let header = |name: &'static str| {
                    let headers = raw_response.as_ref()?.headers();
                    headers.get_optional_str(&name.into()).map(ToOwned::to_owned)
                };
                self.answered(&Answer {
                    status: u16::from(*status),
                    code: error_code.clone().unwrap_or_default(),
                    retry_after: header("retry-after").and_then(|it| it.parse().ok()),
                    date: header("date")
                        .and_then(|it| DateTimeParser::new().parse_timestamp(it.as_bytes()).ok()),
                })
            }
            AzureKind::Connection => {
                Fault::new(FaultKind::Unavailable, format!("cannot connect{}", cause(failed)))
            }
            AzureKind::Io => Fault::new(FaultKind::NoAnswer, format!("no answer{}", cause(failed))),
            AzureKind::Credential => self.without_token(failed),
            AzureKind::DataConversion => {
                let text = "the answer is not what Azure Storage sends; check the endpoint";
                Fault::new(FaultKind::Other, text)
            }
            AzureKind::Other => Fault::new(FaultKind::Other, "unexpected"),
        }
    }

    /// Why there is no token. The texts of the official crate may repeat what an identity provider or a program printed.
    fn without_token(&self, failed: &azure_core::Error) -> Fault {
        let first: &(dyn Error + 'static) = failed;
        let inner = successors(first.source(), |&error| error.source())
            .find_map(|error| error.downcast_ref::<azure_core::Error>());
        let remedy = self.no_token;
        match inner.map(azure_core::Error::kind) {
            Some(AzureKind::HttpResponse { status, error_code, .. }) => {
                let status = u16::from(*status);
                let code =
                    error_code.iter().map(|code| format!(" AADSTS{code}")).collect::<String>();
                let is_busy = status == 429 || status >= 500;
                let kind = if is_busy { FaultKind::Unavailable } else { FaultKind::NotAuthorized };
                Fault::new(kind, format!("no token; {remedy} (HTTP {status}{code})"))
            }
            Some(AzureKind::Connection | AzureKind::Io) => {
                let text = format!("no token: cannot reach the identity provider{}", cause(failed));
                Fault::new(FaultKind::Unavailable, text)
            }
            _ => Fault::new(FaultKind::NotAuthorized, format!("no token; {remedy}")),
        }
    }

    fn answered(&self, answer: &Answer) -> Fault {
        let (kind, remedy) = match (answer.status, answer.code.as_str()) {
            (404, "MessageNotFound") => {
                (FaultKind::MessageNotFound, "the message was deleted or has expired".to_owned())
            }
            (400, "PopReceiptMismatch") | (412, _) => {
                (FaultKind::StaleReceipt, "another consumer has the message".to_owned())
            }
            (404, "BlobNotFound") => (FaultKind::BlobNotFound, "the blob was deleted".to_owned()),
            (404, "ContainerNotFound") => {
                (FaultKind::ContainerNotFound, "create the blob container".to_owned())
            }
            (404, _) => (FaultKind::QueueNotFound, "check the name and the endpoint".to_owned()),
            (409, "QueueAlreadyExists" | "ContainerAlreadyExists") => {
                (FaultKind::AlreadyExists, String::new())
            }
            (409, "QueueBeingDeleted") => {
                (FaultKind::Unavailable, "the queue is being deleted; wait 30 seconds".to_owned())
            }
            (429, _) | (503, "ServerBusy") => {
                let wait = answer.retry_after.map(Duration::from_secs);
                (FaultKind::Throttled(wait), "the account is busy".to_owned())
            }
            (401 | 403, _) => (FaultKind::NotAuthorized, self.why_not_authorized(answer)),
            // Not Azure's own refusal: a proxy in between may have passed the request on.
            (408 | 500..=599, _) => (FaultKind::NoAnswer, "the server failed".to_owned()),
            _ => (FaultKind::Other, "unexpected".to_owned()),
        };
        Fault::new(kind, format!("{remedy} (HTTP {} {})", answer.status, answer.code))
    }

    /// Azure answers a wrong key, a wrong clock and an expired signature alike; the times tell them apart.
    fn why_not_authorized(&self, answer: &Answer) -> String {
        let now = self.clock.now();
        if let Some(server) = answer.date
            && server.duration_until(now).unsigned_abs() > CLOCK_SKEW
        {
            return format!(
                "the clock of this machine shows {now}, that of Azure {server}; set the clock"
            );
        }
        if let Some(expiry) = self.sas_expiry.filter(|expiry| *expiry <= now) {
            return format!("the shared access signature expired at {expiry}; create a new one");
        }
        let mismatch = answer.code.starts_with("Authorization");
        let text = if mismatch {
            "the credential lacks a permission; grant it"
        } else {
            "check the account key, shared access signature or token"
        };
        text.to_owned()
    }
}

/// What is used of an HTTP error.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    /// Azure's error code.
    code: String,
    retry_after: Option<u64>,
    /// The server's time.
    date: Option<Timestamp>,
}

/// The operating system's words for why a connection failed. Errors in between contain the URL.
fn cause(failed: &azure_core::Error) -> String {
    let first: &(dyn Error + 'static) = failed;
    let mut errors = successors(Some(first), |&error| error.source());
    let io = errors.find_map(|error| error.downcast_ref::<io::Error>());
    io.map_or(String::new(), |io| format!(": {}", io.kind()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bezoar_core::ManualClock;

    use super::*;

    fn context() -> FaultContext {
        let clock = Arc::new(ManualClock::default());
        FaultContext { sas_expiry: None, no_token: "check the credential", clock }
    }

    #[track_caller]
    fn check(status: u16, code: &str, expected: FaultKind) {
        let answer = Answer { status, code: code.to_owned(), ..Answer::default() };
        let fault = context().answered(&answer);
        assert_eq!(fault.kind, expected, "{fault:?}");
        assert!(fault.text.contains(&status.to_string()), "{fault:?}");
    }

    #[test]
    fn answers_are_classified_by_status_and_code() {
        check(404, "QueueNotFound", FaultKind::QueueNotFound);
        check(404, "ResourceNotFound", FaultKind::QueueNotFound);
        check(404, "MessageNotFound", FaultKind::MessageNotFound);
        check(400, "PopReceiptMismatch", FaultKind::StaleReceipt);
        check(412, "ConditionNotMet", FaultKind::StaleReceipt);
        check(404, "BlobNotFound", FaultKind::BlobNotFound);
        check(404, "ContainerNotFound", FaultKind::ContainerNotFound);
        check(409, "ContainerAlreadyExists", FaultKind::AlreadyExists);
        check(409, "QueueAlreadyExists", FaultKind::AlreadyExists);
        check(409, "QueueBeingDeleted", FaultKind::Unavailable);
        check(503, "ServerBusy", FaultKind::Throttled(None));
        check(429, "", FaultKind::Throttled(None));
        check(403, "AuthenticationFailed", FaultKind::NotAuthorized);
        check(401, "NoAuthenticationInformation", FaultKind::NotAuthorized);
        check(500, "InternalError", FaultKind::NoAnswer);
        check(500, "OperationTimedOut", FaultKind::NoAnswer);
        check(503, "", FaultKind::NoAnswer);
        check(507, "", FaultKind::NoAnswer);
        check(400, "InvalidXmlDocument", FaultKind::Other);
        check(302, "", FaultKind::Other);
    }

    #[test]
    fn a_wait_that_the_server_names_is_passed_on() {
        let code = "ServerBusy".to_owned();
        let busy = Answer { status: 503, code, retry_after: Some(7), ..Answer::default() };
        let wait = Some(Duration::from_secs(7));
        assert_eq!(context().answered(&busy).kind, FaultKind::Throttled(wait));
    }

    #[test]
    fn the_times_tell_why_a_request_is_not_authorized() {
        let now = ManualClock::default().now();
        let at = |seconds: i64| now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
        let text = |date, code: &str, sas_expiry| {
            let answer = Answer { status: 403, code: code.to_owned(), date, ..Answer::default() };
            FaultContext { sas_expiry, ..context() }.answered(&answer).text
        };
        let failed = "AuthenticationFailed";
        assert!(text(Some(at(901)), failed, None).contains("set the clock"));
        assert!(text(Some(at(-901)), failed, Some(at(-5))).contains("set the clock"));
        assert!(
            text(Some(at(60)), failed, Some(at(-5))).contains("signature expired at 2001-09-09")
        );
        assert!(text(Some(at(60)), failed, Some(at(5))).contains("check the account key"));
        assert!(text(None, "AuthorizationPermissionMismatch", None).contains("lacks a permission"));
    }

    #[test]
    fn only_what_may_have_taken_effect_has_an_unknown_outcome() {
        let queue = QueueName::new("results").unwrap();
        let fault = || Fault::new(FaultKind::NoAnswer, "no answer");
        assert_eq!(fault().into_error(&queue, "send").kind, ErrorKind::OutcomeUnknown);
        assert_eq!(fault().repeatable(&queue, "receive").kind, ErrorKind::Unavailable);
    }
}

//! Why the gateway refused a request (`application/problem+json`).

use std::{fmt, time::Duration};

use bezoar_gateway::api_types::{self, BatchResult, Holder};
use http::{HeaderMap, StatusCode, header};

use super::token::TokenSource;
use crate::{
    humanize::{count, plural},
    output::printable,
};

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// Its HTTP status.
    pub(crate) status: StatusCode,
    /// The code to decide by; empty if the response is not a gateway's.
    pub(crate) code: String,
    detail: Option<String>,
    /// When to try again.
    pub(crate) retry_after: Option<Duration>,
    /// The actual number, where another one was expected.
    pub(crate) found: Option<u64>,
    /// The invalid line of the request, from 1.
    pub(crate) line: Option<u64>,
    /// One result per message of a batch in which all were refused.
    pub(crate) results: Vec<BatchResult>,
    held: Vec<Holder>,
    /// Where the refused token came from.
    token: TokenSource,
}

impl Problem {
    /// Parses an error response; never fails, because other servers send other documents.
    pub(super) fn read(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        token: TokenSource,
    ) -> Self {
        let document: api_types::Problem = serde_json::from_slice(body).unwrap_or_default();
        let code = document.code().unwrap_or_default().to_owned();
        let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let api_types::Problem { detail, found, line, held, results, .. } = document;
        let results = results.unwrap_or_default();
        let detail = Some(detail).filter(|_| !code.is_empty());
        Self { status, code, detail, retry_after, found, line, results, held, token }
    }

    /// The gateway's text, if it is one.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 425 | 429 | 502 | 503 | 504 | 507)
            || self.code == "in-progress"
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(detail) = &self.detail else {
            return write!(
                f,
                "unexpected response {}; is this the URL of a Bezoar gateway?",
                self.status
            );
        };
        if !self.held.is_empty() {
            return f.write_str(&printable(&held(&self.held)));
        }
        match &self.token {
            _ if self.status != StatusCode::UNAUTHORIZED => f.write_str(&printable(detail)),
            TokenSource::Nowhere { missing } => {
                let missing = missing.as_ref().map(|file| format!(" (no {} here)", file.display()));
                write!(
                    f,
                    "{}; set BEZOAR_TOKEN, or run the command in the folder where the gateway was started{}",
                    printable(detail),
                    missing.unwrap_or_default()
                )
            }
            source => write!(f, "the gateway does not know the token from {source}"),
        }
    }
}

fn held(held: &[Holder]) -> String {
    let total: u64 = held.iter().map(|holder| holder.count).sum();
    let are = if total == 1 { "is" } else { "are" };
    let (by, finish, id) = match held {
        [one] => (one.operation.clone(), "finish it", one.operation.as_str()),
        _ => {
            let all = held.iter().map(|it| format!("{} ({})", it.operation, count(it.count)));
            (all.collect::<Vec<_>>().join(", "), "finish each", "ID")
        }
    };
    format!(
        "{} {are} held by {by}; {finish} with `bezoar dead replays {id} --resume --reason TEXT` or --cancel, or pass \
         --skip-held",
        plural(total, "selected dead letter")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16, body: &str) -> Problem {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, 7.into())]);
        let status = StatusCode::from_u16(status).unwrap();
        Problem::read(status, &headers, body.as_bytes(), TokenSource::Nowhere { missing: None })
    }

    #[test]
    fn the_detail_is_printed() {
        let body =
            r#"{"type":"urn:bezoar:problem:busy","detail":"too many\u001b[2J","status":503}"#;
        let busy = problem(503, body);
        assert_eq!(busy.to_string(), "too many\u{fffd}[2J");
        assert_eq!((busy.code.as_str(), busy.retry_after), ("busy", Some(Duration::from_secs(7))));
        assert!(busy.is_transient());
    }

    #[test]
    fn an_unauthorized_caller_learns_what_to_do() {
        let body = r#"{"type":"urn:bezoar:problem:unauthorized","detail":"send a token"}"#;
        assert!(problem(401, body).to_string().starts_with("send a token; set BEZOAR_TOKEN"));
    }

    #[test]
    fn a_response_of_another_server_is_recognized() {
        for body in ["<html>", "", "[]", "7", r#"{"type":"about:blank","detail":"CANARY"}"#] {
            let text = problem(404, body).to_string();
            assert_eq!(
                text,
                "unexpected response 404 Not Found; is this the URL of a Bezoar gateway?"
            );
        }
    }
}

//! The id of a request: in its answer, and in every line that the log has about it.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderName, HeaderValue};
use tracing::Instrument;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that a client may choose.
const LIMIT_BYTES: usize = 64;

/// Answers with the client's id if it is well-formed, or else with a new one.
pub(super) async fn identify(request: Request, next: Next) -> Response {
    let given = request.headers().get(HEADER).filter(|value| is_well_formed(value.as_bytes()));
    let id = given.cloned().unwrap_or_else(generated);
    let span = tracing::error_span!("request", request_id = id.to_str().unwrap_or_default());
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(HEADER, id);
    response
}

/// Letters, digits and a few signs: nothing that a log or a terminal would have to escape.
fn is_well_formed(id: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    (1..=LIMIT_BYTES).contains(&id.len()) && id.iter().all(fits)
}

fn generated() -> HeaderValue {
    let id = format!("req_{:016x}", rand::random::<u64>());
    HeaderValue::from_str(&id).expect("it has only letters, digits and _")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_client_is_taken_only_if_it_is_harmless() {
        let long = "x".repeat(LIMIT_BYTES + 1);
        for (id, expected) in
            [("a-1_b.C", true), ("", false), ("a b", false), ("a\u{1b}[2J", false), (&long, false)]
        {
            assert_eq!(is_well_formed(id.as_bytes()), expected, "{id:?}");
        }
        assert!(is_well_formed(generated().as_bytes()));
    }
}

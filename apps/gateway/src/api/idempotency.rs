//! `Idempotency-Key`: a repeated request returns the operation that the first one planned.
//!
//! The store keeps the key with the operation, so that both survive a restart and neither exists without the other. The
//! same key with a different request is 422, and 409 while the first request is still being carried out, as the IETF's
//! draft of the header has it. A request that was refused leaves no key behind.

use bezoar::{
    RequestKey,
    catalogue::{OperationKind, OperationRequest},
};
use http::{HeaderMap, HeaderName};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Problem;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that the answer is about what an earlier request did.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The key of a request, if it has one, with a digest of what it asks for.
pub(super) fn request(
    headers: &HeaderMap,
    kind: &OperationKind,
    wanted: &impl Serialize,
) -> Result<Option<OperationRequest>, Problem> {
    let mut keys = headers.get_all(KEY).iter();
    let (key, more) = (keys.next(), keys.next());
    let Some(key) = key else { return Ok(None) };
    if more.is_some() {
        return Err(Problem::bad_request("the request has more than one Idempotency-Key"));
    }
    let key = key
        .to_str()
        .map_err(|_| Problem::bad_request("Idempotency-Key must be printable ASCII"))?;
    let key = RequestKey::new(key).map_err(Problem::from)?;
    Ok(Some(OperationRequest { key, digest: digest(kind, wanted) }))
}

/// Of the parsed request: blanks and the order of its members make no difference.
fn digest(kind: &OperationKind, wanted: &impl Serialize) -> [u8; 32] {
    let name: &[u8] = match kind {
        OperationKind::Replay { .. } => b"replay ",
        OperationKind::Discard => b"discard ",
    };
    let text = serde_json::to_vec(wanted).expect("a request has only text as keys");
    Sha256::new().chain_update(name).chain_update(text).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_types::DiscardRequest;

    fn read(keys: &[&[u8]], reason: &str) -> Result<Option<OperationRequest>, Problem> {
        let value = |key: &&[u8]| (KEY, http::HeaderValue::from_bytes(key).unwrap());
        let wanted = DiscardRequest { reason: reason.to_owned(), ..DiscardRequest::default() };
        request(&keys.iter().map(value).collect(), &OperationKind::Discard, &wanted)
    }

    #[test]
    fn a_key_is_one_short_printable_text() {
        assert_eq!(read(&[], "a").unwrap(), None);
        assert_eq!(read(&[b"k-1"], "a").unwrap().unwrap().key.as_str(), "k-1");
        let long = [b'k'; 256];
        for keys in [&[&b""[..]][..], &[b"a", b"b"], &[b"\xff"], &[&long], &[b"a\tb"]] {
            assert_eq!(read(keys, "a").unwrap_err().code(), "bad-request", "{keys:?}");
        }
    }

    #[test]
    fn different_requests_have_different_digests() {
        let digest = |reason| read(&[b"k"], reason).unwrap().unwrap().digest;
        assert_eq!(digest("a"), digest("a"));
        assert_ne!(digest("a"), digest("b"));
    }
}

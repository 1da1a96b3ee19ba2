//! Additional headers of a route's requests.

use bezoar::Invalid;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Additional headers of a route's requests, such as `authorization`. Their values are never printed.
///
/// `content-type` applies to messages without one; `host` and `user-agent` replace the defaults.
#[derive(Debug, Clone, Default)]
pub struct ExtraHeaders(HeaderMap);

impl ExtraHeaders {
    /// Adds a header; an earlier value of that name is replaced.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for what HTTP does not allow, and for names that the gateway sets. It does not contain the value.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        let invalid = |problem: &str| Invalid::new("header", problem);
        let name = HeaderName::try_from(name).map_err(|_| {
            invalid("has a name with invalid characters; use letters, digits and -")
        })?;
        if is_ours(&name) {
            let problem = format!("{name} cannot be set because the gateway sets it");
            return Err(invalid(&problem));
        }
        let ascii = Some(value).filter(|value| value.is_ascii()).map(HeaderValue::from_str);
        let Some(Ok(mut value)) = ascii else {
            return Err(invalid("has a value with characters other than visible ASCII"));
        };
        value.set_sensitive(true);
        self.0.insert(name, value);
        Ok(())
    }

    pub(super) fn into_map(self) -> HeaderMap {
        self.0
    }
}

/// Headers that frame a request or identify the message.
fn is_ours(name: &HeaderName) -> bool {
    const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.as_str();
    FRAMING.contains(&name)
        || name == "traceparent"
        || name.starts_with("bezoar-")
        || name.starts_with("webhook-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden() {
        let mut headers = ExtraHeaders::default();
        headers.insert("Authorization", "Bearer CANARY").unwrap();
        assert!(!format!("{headers:?}").contains("CANARY"));
        assert_eq!(headers.into_map()["authorization"], "Bearer CANARY");
    }

    #[test]
    fn headers_that_would_break_a_request_are_rejected() {
        let refused = [
            ("Content-Length", "CANARY"),
            ("transfer-encoding", "CANARY"),
            ("Bezoar-Id", "CANARY"),
            ("webhook-signature", "CANARY"),
            ("traceparent", "CANARY"),
            ("two words", "CANARY"),
            ("", "CANARY"),
            ("x", "CANARY\r\nhost: evil"),
            ("x", "größe CANARY"),
        ];
        for (name, value) in refused {
            let error = ExtraHeaders::default().insert(name, value).unwrap_err().to_string();
            assert!(!error.contains("CANARY"), "{error}");
        }
    }
}

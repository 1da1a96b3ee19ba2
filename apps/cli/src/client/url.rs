//! The URL of a gateway.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use http::{Uri, uri::Scheme};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything that has a meaning of its own in a path.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Joins segments to a path; a queue such as `hospital/results` is one segment.
pub(crate) fn path<const N: usize>(segments: [&str; N]) -> String {
    segments.iter().map(|segment| format!("/{}", encode(segment))).collect()
}

/// Percent-encodes text for a path or a query.
pub(crate) fn encode(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, RESERVED)
}

/// The URL of a gateway, possibly with a path prefix of a proxy. It contains no secret and can be
/// printed. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url(Arc<Uri>);

impl Url {
    /// The URL of `path` below this one; the path may have a query.
    pub(crate) fn join(&self, path: &str) -> Uri {
        let base = self.0.path().trim_end_matches('/');
        let mut parts = Uri::clone(&self.0).into_parts();
        parts.path_and_query = format!("{base}{path}").parse().ok();
        Uri::from_parts(parts).expect("the base was checked and the path was encoded")
    }

    /// Whether it requires TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// Whether it points to this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.0.host().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl FromStr for Url {
    type Err = &'static str;

    /// The error does not repeat the text: it may contain a password.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.trim().parse().map_err(|_| EXPECTED)?;
        let authority = uri.authority().ok_or(EXPECTED)?.as_str();
        if uri.scheme() != Some(&Scheme::HTTP) && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(EXPECTED);
        }
        if authority.contains('@') {
            return Err("must not contain credentials; set BEZOAR_TOKEN instead");
        }
        if authority.starts_with(':') || uri.query().is_some() {
            return Err(EXPECTED);
        }
        Ok(Self(uri.into()))
    }
}

const EXPECTED: &str = "is not a valid URL; use a form such as http://127.0.0.1:8420";

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, path: &str, expected: &str) {
        let url: Url = base.parse().unwrap();
        assert_eq!(url.join(path).to_string(), expected);
    }

    #[test]
    fn paths_are_joined_below_the_base() {
        check("http://127.0.0.1:8420", "/v1/queues", "http://127.0.0.1:8420/v1/queues");
        check("http://h:1/", "/v1/queues", "http://h:1/v1/queues");
        check("https://h/bezoar/", "/v1/queues?limit=1", "https://h/bezoar/v1/queues?limit=1");
    }

    #[test]
    fn a_name_is_encoded_as_one_segment() {
        let expected = "/v1/queues/hospital%2Fresults%20%C3%BC%3F%23/messages";
        assert_eq!(path(["v1", "queues", "hospital/results ü?#", "messages"]), expected);
    }

    #[test]
    fn an_invalid_url_is_rejected_and_not_repeated() {
        for text in ["", "localhost", "localhost:8420", "/v1", "ftp://h", "http://", "http://:1"] {
            assert_eq!(text.parse::<Url>(), Err(EXPECTED), "{text}");
        }
        let refused = "http://ada:CANARY@h:1".parse::<Url>().unwrap_err();
        assert!(refused.contains("BEZOAR_TOKEN") && !refused.contains("CANARY"), "{refused}");
    }

    #[test]
    fn loopback_names_are_recognized() {
        let is_loopback = |text: &str| text.parse::<Url>().unwrap().is_loopback();
        for text in
            ["http://localhost:1", "http://127.0.0.1", "http://127.8.8.8:1", "https://[::1]:1"]
        {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["http://localhost.example.org", "http://127.0.0.1.nip.io", "http://10.0.0.1"] {
            assert!(!is_loopback(text), "{text}");
        }
    }
}

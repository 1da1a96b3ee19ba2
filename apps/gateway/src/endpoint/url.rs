//! The URL of an endpoint.

use std::{fmt, str::FromStr};

use bezoar::Invalid;
use http::{HeaderValue, Uri, uri::Scheme};

/// The URL of an endpoint: `http` or `https`, a host, and no credentials.
///
/// Its path and query may contain a token, so only scheme, host and port are printed.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    uri: Uri,
    origin: Box<str>,
}

impl EndpointUrl {
    /// Scheme, host and port: `https://example.org:8443`. Safe to show.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The whole URL. The caller is responsible for where it goes.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The `host` header, built once instead of for each request.
    pub(super) fn host(&self) -> HeaderValue {
        let (_, host) = self.origin.split_once("://").expect("an origin has a scheme");
        HeaderValue::from_str(host).expect("a URI's host has only visible ASCII")
    }
}

impl FromStr for EndpointUrl {
    type Err = Invalid;

    /// The error does not contain the text: it may contain a token.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |problem: &str| Err(Invalid::new("url", problem));
        let Ok(uri) = text.parse::<Uri>() else {
            return invalid("is not a URL like https://example.org/results");
        };
        let Some(scheme @ ("http" | "https")) = uri.scheme_str() else {
            return invalid("does not start with http:// or https://");
        };
        let Some(authority) = uri.authority() else { return invalid("has no host") };
        if authority.as_str().contains('@') {
            return invalid("contains credentials; use an authorization header instead");
        }
        let host = authority.host();
        if host.is_empty() || host == "[]" {
            return invalid("has no host");
        }
        if authority.as_str().len() > host.len() && authority.port_u16().unwrap_or(0) == 0 {
            return invalid("has a port that is not from 1 to 65535");
        }
        let port = authority.port_u16().filter(|port| Some(*port) != default_port(&uri));
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let origin = format!("{scheme}://{host}{port}").into();
        Ok(Self { origin, uri })
    }
}

pub(super) fn default_port(uri: &Uri) -> Option<u16> {
    let scheme = uri.scheme()?;
    Some(if *scheme == Scheme::HTTPS { 443 } else { 80 })
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, origin: &str, host: &str) {
        let url: EndpointUrl = text.parse().unwrap();
        assert_eq!((url.origin(), url.host().to_str().unwrap()), (origin, host));
    }

    #[test]
    fn a_url_is_printed_without_path_and_query() {
        check("http://example.org/hook?key=CANARY", "http://example.org", "example.org");
        check("https://h:8443/CANARY", "https://h:8443", "h:8443");
        check("https://h:443", "https://h", "h");
        check("http://h:443/", "http://h:443", "h:443");
        check("http://[::1]:3000/x", "http://[::1]:3000", "[::1]:3000");
        let url: EndpointUrl = "http://h/CANARY?CANARY".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "http://h http://h");
    }

    #[test]
    fn an_invalid_url_is_rejected_and_not_quoted() {
        let bad = [
            "",
            "/CANARY",
            "CANARY.example.org:80",
            "ftp://CANARY/",
            "http:///CANARY",
            "http://[]/",
            "http://h:0/CANARY",
            "http://h:65536/CANARY",
            "http://h:/CANARY",
            "http://user:CANARY@h/",
            "http://h h/CANARY",
            "http://größe/CANARY",
        ];
        for text in bad {
            let error = text.parse::<EndpointUrl>().unwrap_err().to_string();
            assert!(error.starts_with("url ") && !error.contains("CANARY"), "{text}: {error}");
        }
    }
}

//! The URL of an endpoint.

use std::{fmt, str::FromStr};

use bezoar::Invalid;
use http::{HeaderValue, Uri};

/// The URL of an endpoint: `http`, `https`, `mllp` or `mllps`, a host, and no credentials. MLLP needs a port and has no path.
///
/// Its path and query may contain a token, so only scheme, host and port are printed.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    uri: Uri,
    /// The same as `http` or `https`, which is what the connection is made for.
    dialled: Uri,
    origin: Box<str>,
}

impl EndpointUrl {
    /// Scheme, host and port: `https://example.org:8443`. Safe to show.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether it is reached by MLLP, with or without TLS.
    pub fn is_mllp(&self) -> bool {
        self.origin.starts_with("mllp")
    }

    /// Whether it is reached with TLS.
    pub fn is_tls(&self) -> bool {
        self.dialled.scheme() == Some(&http::uri::Scheme::HTTPS)
    }

    /// The whole URL. The caller is responsible for where it goes.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// What a connection is made to: the host and port, and `https` if it needs TLS.
    pub(super) fn dialled(&self) -> &Uri {
        &self.dialled
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
        let Some(scheme @ ("http" | "https" | "mllp" | "mllps")) = uri.scheme_str() else {
            return invalid("does not start with http://, https://, mllp:// or mllps://");
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
        if !scheme.starts_with("mllp") {
            return Ok(Self { dialled: uri.clone(), uri, origin });
        }
        if port.is_empty() {
            return invalid("has no port, which mllp:// and mllps:// need; the usual one is 2575");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return invalid("has a path, which mllp:// and mllps:// do not have");
        }
        let secure = if scheme == "mllps" { "https" } else { "http" };
        let Ok(dialled) = format!("{secure}://{host}{port}").parse() else {
            return invalid("is not a URL like mllp://example.org:2575");
        };
        Ok(Self { uri, dialled, origin })
    }
}

pub(super) fn default_port(uri: &Uri) -> Option<u16> {
    let scheme = uri.scheme()?;
    match scheme.as_str() {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    }
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
    fn mllp_is_dialled_as_a_host_and_a_port() {
        for (text, dialled) in [
            ("mllp://h:2575", "http://h:2575/"),
            ("mllp://h:2575/", "http://h:2575/"),
            ("mllps://h:443", "https://h:443/"),
            ("mllp://[::1]:80", "http://[::1]:80/"),
        ] {
            let url: EndpointUrl = text.parse().unwrap();
            assert_eq!(url.dialled().to_string(), dialled);
            assert_eq!((url.origin(), url.is_mllp()), (text.trim_end_matches('/'), true));
        }
        let http: EndpointUrl = "http://mllp:1/x".parse().unwrap();
        assert!(!http.is_mllp());
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
            "mllp://CANARY",
            "mllp://h:1/CANARY",
            "mllp://h:1?CANARY",
            "mllp://CANARY@h:1",
            "mllp:///CANARY",
            "mllpx://CANARY:1",
        ];
        for text in bad {
            let error = text.parse::<EndpointUrl>().unwrap_err().to_string();
            assert!(error.starts_with("url ") && !error.contains("CANARY"), "{text}: {error}");
        }
    }
}

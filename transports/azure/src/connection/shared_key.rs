//! Signs requests with the account key. The official crate has no such policy.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use azure_core::http::{
    Context, Request, Url,
    policies::{Policy, PolicyResult},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use bezoar_core::Clock;
use hmac::{Hmac, KeyInit, Mac};
use jiff::fmt::rfc2822::DateTimePrinter;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

/// The headers that are signed by their value, in the order of Azure's rule. The date is in `x-ms-date` instead.
const SIGNED: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

pub(crate) struct SharedKeyPolicy {
    pub(crate) account: String,
    pub(crate) key: SecretSlice<u8>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl fmt::Debug for SharedKeyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKeyPolicy({})", self.account)
    }
}

#[async_trait]
impl Policy for SharedKeyPolicy {
    async fn send(
        &self,
        ctx: &Context,
        request: &mut Request,
        next: &[Arc<dyn Policy>],
    ) -> PolicyResult {
        let now = DateTimePrinter::new().timestamp_to_rfc9110_string(&self.clock.now());
        request.insert_header("x-ms-date", now.unwrap_or_default());
        let signature = self.signature(&string_to_sign(request, &self.account));
        request.insert_header("authorization", format!("SharedKey {}:{signature}", self.account));
        next[0].send(ctx, request, &next[1..]).await
    }
}

impl SharedKeyPolicy {
    fn signature(&self, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.expose_secret())
            .expect("a key of any length is accepted");
        mac.update(text.as_bytes());
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }
}

/// What is signed: method, headers and resource, as Azure's documentation of shared keys says.
fn string_to_sign(request: &Request, account: &str) -> String {
    let mut headers: BTreeMap<String, String> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_ascii_lowercase(), value.as_str().to_owned()))
        .collect();
    let length = request.body().len().filter(|length| *length > 0);
    headers.insert("content-length".to_owned(), length.map_or(String::new(), |it| it.to_string()));
    let mut text = format!("{}\n", request.method());
    for name in SIGNED {
        text.push_str(headers.get(name).map_or("", String::as_str));
        text.push('\n');
    }
    for (name, value) in headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
        text.push_str(&format!("{name}:{}\n", value.trim()));
    }
    text + &resource(request.url(), account)
}

fn resource(url: &Url, account: &str) -> String {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Not `query_pairs`, which would decode a `+` as a space: pop receipts contain it.
    for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] = [name, value].map(|it| percent_decode_str(it).decode_utf8_lossy());
        values.entry(name.to_lowercase()).or_default().push(value.into_owned());
    }
    let mut text = format!("/{account}{}", url.path());
    for (name, mut values) in values {
        values.sort();
        text.push_str(&format!("\n{name}:{}", values.join(",")));
    }
    text
}

#[cfg(test)]
mod tests {
    use azure_core::http::Method;
    use bezoar_core::ManualClock;

    use super::*;

    #[test]
    fn method_headers_and_resource_are_signed() {
        let url = "https://lab.queue.core.windows.net/results/messages?visibilitytimeout=5&popreceipt=a%2Bb%3D";
        let mut request = Request::new(Url::parse(url).unwrap(), Method::Put);
        request.insert_header("content-type", "application/xml");
        request.insert_header("x-ms-version", "2024-11-04");
        request.insert_header("x-ms-date", "Sun, 09 Sep 2001 01:46:40 GMT");
        request.set_body(vec![0; 7]);
        let expected = "PUT\n\n\n7\n\napplication/xml\n\n\n\n\n\n\n\
                        x-ms-date:Sun, 09 Sep 2001 01:46:40 GMT\nx-ms-version:2024-11-04\n\
                        /lab/results/messages\npopreceipt:a+b=\nvisibilitytimeout:5";
        assert_eq!(string_to_sign(&request, "lab"), expected);
    }

    #[test]
    fn an_empty_body_has_no_length() {
        let request = Request::new(Url::parse("http://h/acc/q?comp=list").unwrap(), Method::Get);
        assert_eq!(
            string_to_sign(&request, "acc"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\n/acc/acc/q\ncomp:list"
        );
    }

    #[test]
    fn debug_shows_no_key() {
        let key = b"CANARY".to_vec().into();
        let policy =
            SharedKeyPolicy { account: "lab".into(), key, clock: Arc::new(ManualClock::default()) };
        assert_eq!(format!("{policy:?}"), "SharedKeyPolicy(lab)");
    }
}

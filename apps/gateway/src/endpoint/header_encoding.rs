//! Encodes text as header names and values.

use http::{HeaderName, HeaderValue};

/// Encodes text as a header value: UTF-8, with everything but visible ASCII and `%` itself percent-encoded, so that
/// decoding always restores the text. Spaces are kept, except at the ends, where HTTP would drop them.
pub(super) fn value(text: &str) -> HeaderValue {
    let edge = |byte| byte == b' ';
    let bytes = text.as_bytes();
    let edges = bytes.first().copied().is_some_and(edge) || bytes.last().copied().is_some_and(edge);
    if !edges && bytes.iter().all(|byte| is_plain(*byte)) {
        return HeaderValue::from_str(text).expect("visible ASCII is a header value");
    }
    let last = bytes.len().saturating_sub(1);
    let plain = |at: usize, byte| is_plain(byte) && (byte != b' ' || (at > 0 && at < last));
    HeaderValue::try_from(encoded(bytes, plain)).expect("only visible ASCII is left")
}

/// Encodes `prefix` and a name; characters that HTTP does not allow in names are percent-encoded. Names are case-insensitive.
pub(super) fn name(prefix: &str, text: &str) -> Option<HeaderName> {
    let encoded = encoded(text.as_bytes(), |_, byte| is_token(byte));
    HeaderName::try_from(format!("{prefix}{encoded}")).ok()
}

fn encoded(bytes: &[u8], is_plain: impl Fn(usize, u8) -> bool) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(bytes.len() * 3);
    for (at, byte) in bytes.iter().copied().enumerate() {
        if is_plain(at, byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    text
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'%'
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes like a typical receiver, independently of our encoder.
    fn decode(value: &[u8]) -> Vec<u8> {
        let mut bytes = value.iter().copied();
        let mut decoded = Vec::new();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                decoded.push(u8::from_str_radix(digits, 16).unwrap());
            } else {
                decoded.push(byte);
            }
        }
        decoded
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(value(text).to_str().unwrap(), expected);
    }

    #[test]
    fn special_characters_are_percent_encoded() {
        check("lab.result-7", "lab.result-7");
        check("text/plain; charset=utf-8", "text/plain; charset=utf-8");
        check("größe", "gr%C3%B6%C3%9Fe");
        check("100%", "100%25");
        check("a\r\nb", "a%0D%0Ab");
        check(" a b ", "%20a b%20");
        check(" ", "%20");
        check("", "");
    }

    #[test]
    fn names_contain_only_what_http_allows() {
        let shown = |text| name("bezoar-header-", text).unwrap().to_string();
        assert_eq!(shown("Tenant"), "bezoar-header-tenant");
        assert_eq!(shown("a b:c"), "bezoar-header-a%20b%3ac");
        assert_eq!(shown("host\r\nx"), "bezoar-header-host%0d%0ax");
        assert_eq!(name("", &"ö".repeat(40_000)), None);
    }

    proptest! {
        #[test]
        fn a_value_survives_the_round_trip(text: String) {
            let encoded = value(&text);
            prop_assert_eq!(decode(encoded.as_bytes()), text.as_bytes());
            prop_assert_eq!(encoded.as_bytes().trim_ascii(), encoded.as_bytes());
        }
    }
}

//! Signs the lines of exports, so that an import knows which of them are unchanged.
//!
//! Without this, exporting, changing and importing a dead letter would be an edit that nobody approves. The signature is
//! the first member of a line and covers every byte after it. Its key never leaves the store.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const START: &str = "{\"signature\":\"";

/// The key of a store.
pub(crate) struct ExportKey(Hmac<Sha256>);

impl ExportKey {
    /// The text of a new key.
    pub(crate) fn generate() -> String {
        hex(rand::random::<[u8; 32]>())
    }

    pub(crate) fn from_text(text: &str) -> Self {
        Self(Hmac::new_from_slice(text.as_bytes()).expect("any length is a key"))
    }

    /// The line with its signature.
    pub(crate) fn signed(&self, line: &str) -> String {
        let members = line.strip_prefix('{').unwrap_or(line);
        let signature = hex(self.mac(members).finalize().into_bytes());
        format!("{START}{signature}\",{members}")
    }

    /// Whether a line is exactly as this store has written it.
    pub(crate) fn has_signed(&self, line: &str) -> bool {
        let signed = line.trim_end().strip_prefix(START).and_then(|rest| rest.split_once("\","));
        signed.is_some_and(|(signature, members)| {
            bytes(signature).is_some_and(|it| self.mac(members).verify_slice(&it).is_ok())
        })
    }

    fn mac(&self, members: &str) -> Hmac<Sha256> {
        self.0.clone().chain_update(members)
    }
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.is_ascii().then_some(hex.as_bytes())?.chunks(2);
    let byte = |digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    digits.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_line_of_the_same_store_is_signed() {
        let key = ExportKey::from_text(&ExportKey::generate());
        let line = key.signed(r#"{"form":"x","body":"a"}"#);
        assert!(line.ends_with(r#"","form":"x","body":"a"}"#), "{line}");
        assert!(key.has_signed(&line) && key.has_signed(&format!("{line}\r\n")));
        let other = ExportKey::from_text(&ExportKey::generate());
        for changed in [
            line.replace("\"a\"", "\"b\""),
            line.replace(":\"x", ": \"x"),
            other.signed(r#"{"form":"x","body":"a"}"#),
            r#"{"form":"x","body":"a"}"#.to_owned(),
            r#"{"signature":"","form":"x"}"#.to_owned(),
            r#"{"signature":"é+1","form":"x"}"#.to_owned(),
        ] {
            assert!(!key.has_signed(&changed), "{changed}");
        }
    }
}

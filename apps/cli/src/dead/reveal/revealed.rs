//! Revealed content as text. It is sensitive and has no `Debug`, so that it cannot be printed by accident.

use std::borrow::Cow;

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bezoar_gateway::api_types;

use crate::{
    client::{ApiReply, ClientError},
    humanize::{self, plural},
    output::printable,
};

/// What the gateway revealed.
pub(in super::super) struct Revealed(api_types::Revealed);

impl Revealed {
    pub(in super::super) fn read(reply: &ApiReply) -> Result<Self, ClientError> {
        reply.parse().map(Self)
    }

    /// The bytes of the body.
    pub(in super::super) fn body(&self) -> Result<Vec<u8>> {
        let text = self.0.body_base64.as_ref().context("the gateway's response has no body")?;
        STANDARD.decode(text.reveal()).ok().context("the gateway's response is not valid base64")
    }

    /// The media type of the body.
    pub(in super::super) fn content_type(&self) -> Option<&str> {
        self.0.content_type.as_deref()
    }

    /// Everything that was requested, for a person to read.
    pub(super) fn text(&self) -> Result<String> {
        let mut text = String::new();
        if let Some(headers) = &self.0.headers {
            let headers = headers.reveal();
            text += &format!("{}\n", plural(headers.len() as u64, "header"));
            for (name, value) in headers {
                text += &format!("  {}: {}\n", printable(name), printable(value));
            }
        }
        if let Some(details) = &self.0.details {
            let details = details.reveal();
            text += &format!("{}, oldest first\n", plural(details.len() as u64, "error text"));
            for (place, detail) in details.iter().enumerate() {
                let detail = if detail.is_empty() { humanize::NONE } else { detail };
                text += &format!("  {}. {}\n", place + 1, lines(detail));
            }
        }
        if self.0.body_base64.is_some() {
            text += &self.body_text()?;
        }
        Ok(text)
    }

    fn body_text(&self) -> Result<String> {
        let body = self.body()?;
        let kind = self.0.content_type.as_deref().unwrap_or("no content type");
        let title = format!("body, {}, {}\n", plural(body.len() as u64, "byte"), printable(kind));
        let text = match std::str::from_utf8(&body) {
            Ok(text) if is_text(&body) => lines(text),
            _ => "binary, not shown; write it to a file with --body --output FILE".to_owned(),
        };
        Ok(format!("{title}  {text}\n"))
    }
}

/// Indents every line and removes control characters.
fn lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(|line| printable(line.trim_end_matches('\r'))).collect();
    lines.join("\n  ")
}

/// Whether it is text that a terminal can show unchanged.
pub(in super::super) fn is_text(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| {
        let text = text.replace("\r\n", "\n").replace(['\n', '\t'], "");
        matches!(printable(&text), Cow::Borrowed(_))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_what_a_terminal_can_show() {
        for (body, expected) in [
            (&b"{\"a\": 1}\r\n\tx"[..], true),
            ("größe".as_bytes(), true),
            (b"", true),
            (b"a\x1b[2J", false),
            (b"a\rb", false),
            (b"\xff\xfe", false),
            ("a\u{202e}b".as_bytes(), false),
            (b"\0", false),
        ] {
            assert_eq!(is_text(body), expected, "{body:?}");
        }
    }

    #[test]
    fn all_parts_are_formatted() {
        let revealed = serde_json::from_value(json!({
            "id": "dl_e4295pe0", "content_type": "text/plain", "body_base64": STANDARD.encode("one\ntwo"),
            "headers": { "source": "ward 3\u{1b}" }, "details": ["first\nline", ""],
        }))
        .unwrap();
        let expected = "\
1 header
  source: ward 3\u{fffd}
2 error texts, oldest first
  1. first
  line
  2. –
body, 7 bytes, text/plain
  one
  two
";
        assert_eq!(Revealed(revealed).text().unwrap(), expected);
    }
}

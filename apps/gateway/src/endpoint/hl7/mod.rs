//! The few fields of HL7 v2 that a delivery needs: the control id of a message, and who acknowledges what.
//!
//! Everything works on bytes. Messages are often ISO 8859-1 and not always valid in what they declare, their bodies may be
//! large, and only their first segment matters here: a parser for text would refuse the first and read the second to its
//! end. Segments may end with CR (the standard), LF or both.

mod acknowledgement;

use bezoar::{Code, Detail, Failure, FailureKind};

pub use self::acknowledgement::AckCode;
pub(super) use self::acknowledgement::{Acknowledgement, BadAck, acknowledgement};

/// The content type of HL7 v2 messages, from the specification "HL7 over HTTP".
pub(super) const CONTENT_TYPE: &str = "x-application/hl7-v2+er7";

/// Why a message cannot be sent to an endpoint that acknowledges by HL7. It is final: the message would have to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsendable {
    /// It does not start with a MSH segment.
    NoHeader,
    /// Its MSH-10 is empty, so that no acknowledgement could be matched.
    NoControlId,
    /// It contains a byte that would end the MLLP frame.
    FramingBytes,
}

impl Unsendable {
    pub(super) fn failure(self) -> Failure {
        let (code, text) = match self {
            Self::NoHeader => {
                (Code::from_static("hl7.no-msh"), "the message has no MSH segment at its start")
            }
            Self::NoControlId => {
                (Code::from_static("hl7.no-control-id"), "the message has no control id (MSH-10)")
            }
            Self::FramingBytes => (
                Code::from_static("mllp.framing-bytes"),
                "the message contains a byte that MLLP uses for framing (0x0B or 0x1C)",
            ),
        };
        Failure::with_detail(FailureKind::Permanent, Detail::truncated(text.to_owned()))
            .with_code(code)
    }
}

/// The control id of a message, MSH-10.
pub(super) fn control_id(message: &[u8]) -> Result<&[u8], Unsendable> {
    let header = Header::of(message).ok_or(Unsendable::NoHeader)?;
    header.control_id().ok_or(Unsendable::NoControlId)
}

/// The first segment of a message, and the separator that it declares.
struct Header<'m> {
    segment: &'m [u8],
    separator: u8,
}

impl<'m> Header<'m> {
    /// `None` unless the message starts with a MSH segment. A byte order mark, white space and the start of an MLLP frame
    /// may precede it.
    fn of(message: &'m [u8]) -> Option<Self> {
        let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        let start = message.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0x0b)?;
        let segment = segments(&message[start..]).next()?;
        let separator = *segment.strip_prefix(b"MSH")?.first()?;
        separator.is_ascii_punctuation().then_some(Self { segment, separator })
    }

    /// MSH-1 is the separator itself, so that the fields after it are one further along than in other segments.
    fn control_id(&self) -> Option<&'m [u8]> {
        field(self.segment, self.separator, 9)
    }
}

/// The segments of a message, without those that are empty.
fn segments(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    message.split(|byte| matches!(byte, b'\r' | b'\n')).filter(|segment| !segment.is_empty())
}

/// A field of a segment, if it is not empty. The name of the segment is number 0.
fn field(segment: &[u8], separator: u8, number: usize) -> Option<&[u8]> {
    let field = segment.split(|byte| *byte == separator).nth(number)?.trim_ascii();
    (!field.is_empty()).then_some(field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(message: &[u8], expected: Result<&str, Unsendable>) {
        let found = control_id(message).map(|id| std::str::from_utf8(id).unwrap());
        assert_eq!(found, expected, "{}", message.escape_ascii());
    }

    #[test]
    fn the_control_id_is_found_with_every_line_end_and_separator() {
        for end in ["\r", "\n", "\r\n", ""] {
            let text = format!("MSH|^~\\&|A|B|C|D|2026||ORU^R01|MSG-7|P|2.5{end}PID|1{end}");
            check(text.as_bytes(), Ok("MSG-7"));
        }
        check(b"MSH|^~\\&|A|B|C|D|2026||ORU^R01|MSG-7", Ok("MSG-7"));
        check(b"MSH*^~\\&*A*B*C*D*2026**ORU^R01* MSG|7 *P*2.5\r", Ok("MSG|7"));
        check(b"\xef\xbb\xbf\r\n MSH|^~\\&|||||||ACK|1\r", Ok("1"));
        check(b"\x0bMSH|^~\\&|||||||ACK|1\r\x1c\r", Ok("1"));
        check(b"MSH|^~\\&|M\xfcller||||||ORU|1|P\rPID|M\xfcller", Ok("1"));
    }

    #[test]
    fn a_message_without_header_or_control_id_says_so() {
        for text in [
            "",
            "\r\n",
            "MSH",
            "MSHX^~\\&|",
            "MSH\r|",
            "PID|1\rMSH|^~\\&|||||||ACK|1",
            "FHS|^~\\&|\rMSH|^~\\&|||||||ACK|1",
            "msh|^~\\&|||||||ACK|1",
            r#"{"MSH": 1}"#,
        ] {
            check(text.as_bytes(), Err(Unsendable::NoHeader));
        }
        for text in
            ["MSH|", "MSH|^~\\&|||||||ACK", "MSH|^~\\&|||||||ACK||P", "MSH|^~\\&|||||||ACK| \r1"]
        {
            check(text.as_bytes(), Err(Unsendable::NoControlId));
        }
    }

    #[test]
    fn what_cannot_be_sent_is_permanent_and_has_a_code_of_its_own() {
        let all = [Unsendable::NoHeader, Unsendable::NoControlId, Unsendable::FramingBytes];
        let codes = all.map(|it| it.failure().code.to_string());
        assert_eq!(codes, ["hl7.no-msh", "hl7.no-control-id", "mllp.framing-bytes"]);
        assert!(all.iter().all(|it| it.failure().kind == FailureKind::Permanent));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = control_id(&bytes);
            let _ = control_id(&[b"MSH|".as_slice(), &bytes].concat());
        }

        #[test]
        fn a_control_id_is_part_of_the_first_segment(text in "[A-Z|^\\r\\n ]{0,40}") {
            let message = format!("MSH|^~\\&|{text}");
            let first = message.split(['\r', '\n']).next().unwrap();
            if let Ok(id) = control_id(message.as_bytes()) {
                prop_assert!(first.contains(std::str::from_utf8(id).unwrap()));
            }
        }
    }
}

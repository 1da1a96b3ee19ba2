//! Reads acknowledgements: MSA-1 says what became of a message, MSA-2 of which.

use bezoar::{Code, Detail, Failure, FailureKind};

use super::{Header, field, segments};

/// How much of a reply is stored that is not an acknowledgement.
const TEXT_LIMIT_BYTES: usize = 1024;

/// The code of an acknowledgement, MSA-1 (HL7 table 0008). Exhaustive: the table has these six.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckCode {
    /// `AA`: the application accepted the message.
    ApplicationAccept,
    /// `AE`: the application failed on the message. It may succeed later.
    ApplicationError,
    /// `AR`: the application rejected the message.
    ApplicationReject,
    /// `CA`: the receiver has stored the message.
    CommitAccept,
    /// `CE`: the receiver could not store the message. It may succeed later.
    CommitError,
    /// `CR`: the receiver rejected the message.
    CommitReject,
}

impl AckCode {
    /// Every code.
    pub const ALL: [Self; 6] = [
        Self::ApplicationAccept,
        Self::ApplicationError,
        Self::ApplicationReject,
        Self::CommitAccept,
        Self::CommitError,
        Self::CommitReject,
    ];

    /// The two letters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApplicationAccept => "AA",
            Self::ApplicationError => "AE",
            Self::ApplicationReject => "AR",
            Self::CommitAccept => "CA",
            Self::CommitError => "CE",
            Self::CommitReject => "CR",
        }
    }

    /// The code for a failure with this acknowledgement: `hl7.ae`.
    pub(in crate::endpoint) const fn code(self) -> Code {
        match self {
            Self::ApplicationAccept => Code::from_static("hl7.aa"),
            Self::ApplicationError => Code::from_static("hl7.ae"),
            Self::ApplicationReject => Code::from_static("hl7.ar"),
            Self::CommitAccept => Code::from_static("hl7.ca"),
            Self::CommitError => Code::from_static("hl7.ce"),
            Self::CommitReject => Code::from_static("hl7.cr"),
        }
    }

    /// Whether the receiver will never take the message.
    pub(in crate::endpoint) const fn is_reject(self) -> bool {
        matches!(self, Self::ApplicationReject | Self::CommitReject)
    }

    /// Whether the acknowledgement of the application may still follow on the same connection.
    pub(in crate::endpoint) const fn is_commit(self) -> bool {
        matches!(self, Self::CommitAccept | Self::CommitError | Self::CommitReject)
    }

    fn read(field: &[u8]) -> Option<Self> {
        let is = |code: &Self| field.eq_ignore_ascii_case(code.as_str().as_bytes());
        Self::ALL.into_iter().find(is)
    }
}

/// The acknowledgement of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::endpoint) struct Acknowledgement {
    pub(in crate::endpoint) code: AckCode,
    /// What the receiver says about it: MSA-3 and the ERR segments.
    pub(in crate::endpoint) detail: Detail,
}

/// Why a reply is not the acknowledgement of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::endpoint) struct BadAck {
    problem: AckProblem,
    /// The beginning of the reply.
    detail: Detail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckProblem {
    /// It is not an HL7 message with a MSA segment.
    Missing,
    /// It acknowledges another message.
    WrongControlId,
    /// Its MSA-1 is none of the six codes.
    UnknownCode,
}

impl BadAck {
    /// A reply that is not even a frame of MLLP.
    pub(in crate::endpoint) fn missing(reply: &[u8]) -> Self {
        Self::new(AckProblem::Missing, reply)
    }

    fn new(problem: AckProblem, reply: &[u8]) -> Self {
        let beginning = &reply[..reply.len().min(TEXT_LIMIT_BYTES)];
        Self { problem, detail: text(beginning) }
    }

    /// It says nothing certain about the message, which may have arrived.
    pub(in crate::endpoint) fn failure(&self) -> Failure {
        let code = match self.problem {
            AckProblem::Missing => Code::from_static("hl7.no-ack"),
            AckProblem::WrongControlId => Code::from_static("hl7.wrong-control-id"),
            AckProblem::UnknownCode => Code::from_static("hl7.unknown-ack-code"),
        };
        Failure::with_detail(FailureKind::Transient, self.detail.clone()).with_code(code)
    }
}

/// Reads a reply as the acknowledgement of the message with this control id.
pub(in crate::endpoint) fn acknowledgement(
    reply: &[u8],
    control_id: &[u8],
) -> Result<Acknowledgement, BadAck> {
    let bad = |problem| BadAck::new(problem, reply);
    let header = Header::of(reply).ok_or_else(|| bad(AckProblem::Missing))?;
    let named = |name: &'static [u8]| {
        let separator = header.separator;
        let is = move |segment: &&[u8]| {
            segment.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&separator))
        };
        segments(reply).filter(is)
    };
    let of = |segment, number| field(segment, header.separator, number);
    let msa = named(b"MSA").next().ok_or_else(|| bad(AckProblem::Missing))?;
    if of(msa, 2) != Some(control_id) {
        return Err(bad(AckProblem::WrongControlId));
    }
    let code = of(msa, 1).and_then(AckCode::read).ok_or_else(|| bad(AckProblem::UnknownCode))?;
    let said: Vec<_> = of(msa, 3).into_iter().chain(named(b"ERR")).collect();
    Ok(Acknowledgement { code, detail: text(&said.join(b"\n".as_slice())) })
}

fn text(bytes: &[u8]) -> Detail {
    Detail::truncated(String::from_utf8_lossy(bytes).replace('\r', "\n"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "MSH|^~\\&|LAB|X|HIS|Y|2026||ACK^R01|77|P|2.5";

    /// The code of the acknowledgement, or of the failure.
    fn read(reply: &[u8]) -> String {
        match acknowledgement(reply, b"MSG-7") {
            Ok(ack) => ack.code.as_str().to_owned(),
            Err(bad) => bad.failure().code.to_string(),
        }
    }

    #[test]
    fn every_code_is_read_with_every_line_end() {
        for code in AckCode::ALL.map(AckCode::as_str) {
            for end in ["\r", "\n", "\r\n"] {
                let reply = format!("{HEAD}{end}MSA|{code}|MSG-7{end}");
                assert_eq!(read(reply.as_bytes()), code);
            }
        }
        assert_eq!(read(format!("{HEAD}\rSFT|x\rMSA| aa | MSG-7 ").as_bytes()), "AA");
        assert_eq!(read(b"MSH$^~\\&$$$$$$$ACK$1\rMSA$AA$MSG-7"), "AA");
        assert_eq!(read(format!("\x0b{HEAD}\rMSA|AA|MSG-7\r\x1c\r").as_bytes()), "AA");
    }

    #[test]
    fn what_is_no_acknowledgement_has_a_code_of_its_own() {
        let no_ack = ["", "OK", "<html>", "{}", "MSA|AA|MSG-7", HEAD, "\x06"];
        for reply in no_ack.map(ToOwned::to_owned).into_iter().chain([
            format!("{HEAD}\rMSAX|AA|MSG-7"),
            format!("{HEAD}\rMSA"),
            format!("{HEAD}\rMSA^AA^MSG-7"),
            format!("{HEAD}\rERR|MSA|AA|MSG-7"),
        ]) {
            assert_eq!(read(reply.as_bytes()), "hl7.no-ack", "{reply:?}");
        }
        for msa in ["MSA|", "MSA|AA", "MSA|AA|", "MSA|AA|MSG-71", "MSA|AA|msg-7", "MSA|AR|77"] {
            assert_eq!(read(format!("{HEAD}\r{msa}").as_bytes()), "hl7.wrong-control-id", "{msa}");
        }
        for code in ["", "A", "AAA", "OK", "AA^x"] {
            let reply = format!("{HEAD}\rMSA|{code}|MSG-7");
            assert_eq!(read(reply.as_bytes()), "hl7.unknown-ack-code", "{code}");
        }
    }

    #[test]
    fn the_detail_is_what_the_receiver_says_and_is_hidden() {
        let reply = format!("{HEAD}\rMSA|AE|MSG-7|CANARY\rERR||PID^1|207^x\rERR|b\rZZZ|c");
        let ack = acknowledgement(reply.as_bytes(), b"MSG-7").unwrap();
        assert_eq!(ack.detail.reveal(), "CANARY\nERR||PID^1|207^x\nERR|b");
        let bad = acknowledgement(b"CANARY", b"MSG-7").unwrap_err();
        assert_eq!(bad.failure().detail.reveal(), "CANARY");
        assert!(!format!("{ack:?} {bad:?}").contains("CANARY"));
    }

    proptest! {
        #[test]
        fn any_reply_is_read_without_a_panic(reply: Vec<u8>, control_id: Vec<u8>) {
            let _ = acknowledgement(&reply, &control_id);
            let reply = [b"MSH|^~\\&|\rMSA|".as_slice(), &reply].concat();
            let _ = acknowledgement(&reply, &control_id);
        }

        #[test]
        fn nothing_but_its_own_control_id_acknowledges_a_message(id in "[A-Z0-9.|-]{0,12}") {
            let reply = format!("{HEAD}\rMSA|AA|{id}\r");
            let is_own = id.split('|').next() == Some("MSG-7");
            prop_assert_eq!(acknowledgement(reply.as_bytes(), b"MSG-7").is_ok(), is_own);
        }
    }
}

//! Propagates traces between programs: W3C trace context, version 00.

use bezoar::{Context, CorrelationIds};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The header, in requests and in messages.
pub const TRACEPARENT: &str = "traceparent";

/// `00-` 32 digits `-` 16 digits `-` 2 digits.
const LENGTH_BYTES: usize = 55;

/// The `traceparent` to pass on from `span`. If it is not traced, a valid incoming one is passed on unchanged, so that
/// others can follow a message through the gateway.
pub fn traceparent(span: &Span, incoming: Option<&str>) -> Option<String> {
    let context = span.context();
    let span = context.span();
    match span.span_context() {
        traced if traced.is_valid() => Some(format(traced)),
        _ => incoming.filter(|text| parse(text).is_some()).map(str::to_owned),
    }
}

/// Whether traces continue from callers to endpoints, and correlation ids are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Correlation {
    /// They do.
    #[default]
    On,
    /// They do not. Within the gateway a message still has one trace.
    Off,
}

impl Correlation {
    /// Whether correlation ids are logged.
    pub fn ids(self) -> CorrelationIds {
        match self {
            Self::On => CorrelationIds::Shown,
            Self::Off => CorrelationIds::Hidden,
        }
    }

    /// The caller's trace, if it is to be continued.
    pub fn incoming(self, said: Option<&str>) -> Option<&str> {
        said.filter(|_| self == Self::On)
    }

    /// The `traceparent` for the endpoint. Call it within the try, whose span is then the current one.
    pub fn outgoing(self, context: &Context) -> Option<String> {
        match self {
            Self::On => traceparent(&Span::current(), stored(context)),
            Self::Off => None,
        }
    }
}

/// The `traceparent` that was stored with the message.
pub(super) fn stored(context: &Context) -> Option<&str> {
    context.message.headers.get(TRACEPARENT).map(|value| value.reveal().as_str())
}

/// Parses exactly the form of version 00; anything else is ignored.
pub(super) fn parse(text: &str) -> Option<SpanContext> {
    let bytes = text.as_bytes();
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let in_place = |(at, byte): (usize, &u8)| match at {
        2 | 35 | 52 => *byte == b'-',
        _ => hex(byte),
    };
    if bytes.len() != LENGTH_BYTES || !bytes.iter().enumerate().all(in_place) {
        return None;
    }
    if &text[..2] != "00" {
        return None;
    }
    let trace = TraceId::from_hex(&text[3..35]).ok()?;
    let span = SpanId::from_hex(&text[36..52]).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(&text[53..], 16).ok()?) & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

fn format(context: &SpanContext) -> String {
    let flags = context.trace_flags() & TraceFlags::SAMPLED;
    format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_survives_the_round_trip() {
        assert_eq!(format(&parse(GOOD).unwrap()), GOOD);
        let unsampled = GOOD.replace("-01", "-00");
        assert_eq!(format(&parse(&unsampled).unwrap()), unsampled);
        // Unknown flags are accepted but not passed on.
        assert_eq!(format(&parse(&GOOD.replace("-01", "-ff")).unwrap()), GOOD);
    }

    #[test]
    fn garbage_is_ignored() {
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let multibyte = "00-0af7651916cd43dd8448eb211c8031é-b7ad6b7169203331-01";
        let (upper, long) = (GOOD.to_uppercase(), format!("{GOOD}-extra"));
        let (space, version) = (format!(" {GOOD}"), GOOD.replace("00-0a", "01-0a"));
        let signed = GOOD.replace("-01", "-+1");
        for bad in ["", "00", zeros, no_span, multibyte, &upper, &long, &space, &version, &signed] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn without_tracing_the_callers_trace_is_passed_on_unchanged() {
        let strange_flags = GOOD.replace("-01", "-ff");
        let passed = traceparent(&Span::none(), Some(&strange_flags));
        assert_eq!(passed, Some(strange_flags));
        assert_eq!(traceparent(&Span::none(), Some("garbage")), None);
        assert_eq!(traceparent(&Span::none(), None), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            prop_assert!(parse(&text).is_none());
        }

        #[test]
        fn accepted_values_survive_the_round_trip(trace in 1u128.., span in 1u64.., sampled: bool) {
            let text = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(sampled));
            prop_assert_eq!(format(&parse(&text).unwrap()), text);
        }
    }
}

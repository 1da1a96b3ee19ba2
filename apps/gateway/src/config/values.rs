//! Parses written values into typed values.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    InvalidValue, Kind,
    human::{Rate, duration, size},
    invalid_value::quoted,
    tree::Value,
};
use crate::endpoint::{Cidr, EndpointUrl};

/// A type that a key of some kind can have.
pub(crate) trait Parsed: Sized {
    /// Parses a value whose type the kind accepts.
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue>;

    /// Formats it as it is written.
    fn shown(&self) -> String;
}

/// The text of a string.
pub(crate) fn text(value: &Value) -> Result<&str, InvalidValue> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(InvalidValue::new(format!("is {}", other.kind()), "use a string")),
    }
}

fn outside(shown: &str, kind: &Kind) -> InvalidValue {
    InvalidValue::new(format!("is {shown}"), format!("set {}", kind.expected()))
}

impl Parsed for Duration {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let parsed = duration::parse(text(value)?)?;
        match kind {
            Kind::Duration(least, most) if !(*least..=*most).contains(&parsed) => {
                Err(outside(&quoted(&parsed.shown()), kind))
            }
            _ => Ok(parsed),
        }
    }

    fn shown(&self) -> String {
        duration::format(*self)
    }
}

impl Parsed for PathBuf {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        match text(value)? {
            "" => Err(InvalidValue::new("is empty", "use the path of a file")),
            path => Ok(path.into()),
        }
    }

    fn shown(&self) -> String {
        self.display().to_string()
    }
}

/// Bytes.
impl Parsed for u64 {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let parsed = size::parse(text(value)?)?;
        match kind {
            Kind::Size(least, most) if !(*least..=*most).contains(&parsed) => {
                Err(outside(&quoted(&parsed.shown()), kind))
            }
            _ => Ok(parsed),
        }
    }

    fn shown(&self) -> String {
        size::format(*self)
    }
}

impl Parsed for u32 {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let (Kind::Integer(least, most), Value::Integer(integer)) = (kind, value) else {
            return Err(outside(value.kind(), kind));
        };
        let parsed = Self::try_from(*integer).ok();
        parsed
            .filter(|parsed| (*least..=*most).contains(parsed))
            .ok_or_else(|| outside(&integer.to_string(), kind))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for f64 {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let parsed = match value {
            Value::Number(number) => *number,
            #[expect(clippy::cast_precision_loss, reason = "values in range are far below 2^52")]
            Value::Integer(integer) => *integer as Self,
            other => return Err(outside(other.kind(), kind)),
        };
        match kind {
            Kind::Number(least, most) if !(*least..=*most).contains(&parsed) => {
                Err(outside(&parsed.to_string(), kind))
            }
            _ => Ok(parsed),
        }
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for bool {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        match value {
            Value::Boolean(boolean) => Ok(*boolean),
            other => Err(outside(other.kind(), kind)),
        }
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for SocketAddr {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        text.parse().map_err(|_| {
            let named = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':'));
            let port = named.unwrap_or(text).parse().unwrap_or(8420_u16);
            let remedy =
                format!("use \"127.0.0.1:{port}\" for this machine only, \"0.0.0.0:{port}\" for all networks");
            InvalidValue::not_a("address and port", text, remedy)
        })
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for Rate {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        text(value)?.parse()
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for EndpointUrl {
    /// The text is not quoted: it may contain a token.
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        let remedy = if text.contains('@') && text.starts_with("http") {
            r#"remove them and set headers = { Authorization = "env:NAME" }"#.to_owned()
        } else {
            format!("expected {}", kind.expected())
        };
        match text.parse::<Self>() {
            Ok(url) if url.is_mllp() && *kind == Kind::Endpoint => {
                Err(InvalidValue::new("does not start with http:// or https://", remedy))
            }
            parsed => parsed.map_err(|invalid| InvalidValue::new(invalid.problem, remedy)),
        }
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Parsed for Cidr {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        text.parse().map_err(|invalid: bezoar::Invalid| {
            let problem = format!("is {}, which {}", quoted(text), invalid.problem);
            InvalidValue::new(problem, r#"use networks such as "10.0.0.0/8" or "::1""#)
        })
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// The maximum number of elements in a list.
const LIST_LIMIT: usize = 1_000;

impl<T: Parsed> Parsed for Vec<T> {
    fn parse(kind: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        match value {
            Value::List(list) if list.len() > LIST_LIMIT => {
                let problem = format!("has {} elements", list.len());
                Err(InvalidValue::new(problem, format!("the maximum is {LIST_LIMIT}")))
            }
            Value::List(list) => list.iter().map(|node| T::parse(kind, &node.value)).collect(),
            other => Err(outside(other.kind(), kind)),
        }
    }

    fn shown(&self) -> String {
        let items: Vec<_> = self.iter().map(|item| format!("{:?}", item.shown())).collect();
        format!("[{}]", items.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn parse<T: Parsed>(kind: Kind, text: &str) -> Result<String, String> {
        let value = kind.typed(text.to_owned(), &Origin::Default).map_err(|e| e.to_string())?;
        T::parse(&kind, &value).map(|parsed| parsed.shown()).map_err(|e| e.to_string())
    }

    #[track_caller]
    fn accepts<T: Parsed>(kind: Kind, text: &str, shown: &str) {
        assert_eq!(parse::<T>(kind, text), Ok(shown.to_owned()));
    }

    #[track_caller]
    fn refuses<T: Parsed>(kind: Kind, text: &str, part: &str) {
        let error = parse::<T>(kind, text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn values_are_formatted_as_written() {
        let minute = Kind::Duration(Duration::ZERO, Duration::from_secs(60));
        accepts::<Duration>(minute, "30s", "30s");
        accepts::<u64>(Kind::Size(0, 1 << 30), "16 MiB", "16MiB");
        accepts::<u32>(Kind::Integer(0, 5), "5", "5");
        accepts::<f64>(Kind::Number(0.0, 1.0), "0.1", "0.1");
        accepts::<bool>(Kind::Boolean, "true", "true");
        accepts::<SocketAddr>(Kind::Address, "[::1]:8420", "[::1]:8420");
        accepts::<Rate>(Kind::Rate, "5/m", "5/m");
        accepts::<EndpointUrl>(Kind::Endpoint, "http://h/x?key=1", "http://h");
        accepts::<EndpointUrl>(Kind::Destination, "mllps://h:2575", "mllps://h:2575");
        accepts::<Vec<Cidr>>(Kind::Networks, "10.0.0.0/8, ::1", r#"["10.0.0.0/8", "::1/128"]"#);
    }

    #[test]
    fn values_out_of_range_are_rejected_with_the_range() {
        let minute = Kind::Duration(Duration::ZERO, Duration::from_secs(60));
        refuses::<Duration>(minute, "2m", r#"is "2m"; set a duration from "0s" to "1m""#);
        refuses::<u64>(Kind::Size(0, 1024), "1MiB", r#"set a size from "0B" to "1KiB""#);
        refuses::<u32>(Kind::Integer(1, 5), "-1", "is -1; set a whole number from 1 to 5");
        refuses::<u32>(Kind::Integer(1, 5), "9999999999", "is 9999999999; set");
        refuses::<f64>(Kind::Number(0.0, 1.0), "NaN", "is NaN; set a number from 0 to 1");
    }

    #[test]
    fn common_mistakes_have_a_hint() {
        refuses::<SocketAddr>(Kind::Address, "localhost:80", r#"use "127.0.0.1:80""#);
        refuses::<SocketAddr>(Kind::Address, ":9000", r#"use "127.0.0.1:9000""#);
        refuses::<SocketAddr>(Kind::Address, "9000", r#"use "127.0.0.1:9000""#);
        refuses::<SocketAddr>(Kind::Address, "0.0.0.0", r#"use "127.0.0.1:8420""#);
        refuses::<EndpointUrl>(Kind::Endpoint, "localhost:3000", "http://");
        refuses::<EndpointUrl>(Kind::Endpoint, "http://u:p@h/", "headers = { Authorization");
        refuses::<EndpointUrl>(Kind::Destination, "mllp://h", "has no port");
        refuses::<EndpointUrl>(Kind::Destination, "mllp://h:1/x", "has a path");
        refuses::<EndpointUrl>(Kind::Endpoint, "mllp://h:1", "http:// or https://");
        refuses::<Vec<Cidr>>(Kind::Networks, "10.0.0.1/8", "use 10.0.0.0/8");
    }

    #[test]
    fn possible_tokens_are_not_quoted() {
        for text in ["http://u:CANARY@h/", "CANARY", "ftp://CANARY", "http://h:x/CANARY"] {
            let error = parse::<EndpointUrl>(Kind::Endpoint, text).unwrap_err();
            assert!(!error.contains("CANARY"), "{error}");
        }
    }
}

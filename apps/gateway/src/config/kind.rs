//! The kinds of values that keys accept.

use std::time::Duration;

use super::{
    InvalidValue,
    human::{duration, size},
    tree::{Node, Value},
};
use crate::config::Origin;

/// The kind of value that a key accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A table with keys of its own: `[server]`.
    Table,
    /// Any number of tables: `[[route]]`.
    Tables,
    /// Named tables: `[transports.hospital]`.
    Named,
    /// The name of a preset, or a table with keys of its own.
    Retry,
    /// A table from names of headers to values that may be secrets.
    Headers,
    /// Letters, digits, `-`, `_` and `.`, at most 64.
    Name,
    /// The name of a queue.
    Queue,
    /// The name of an exchange, queue or routing key on a broker; empty for the default exchange.
    BrokerName,
    /// Names of queues.
    Queues,
    /// An address and a port.
    Address,
    /// Where the store is.
    StoreUrl,
    /// A URL of a broker, such as this one: a secret, because it may contain a password.
    BrokerUrl(&'static str),
    /// A file.
    File,
    /// An `http` or `https` URL.
    Endpoint,
    /// An `http`, `https`, `mllp` or `mllps` URL.
    Destination,
    /// Ranges of addresses.
    Networks,
    /// `"auto"`, `true` or `false`.
    Automatic,
    /// A size from the first to the second, in bytes.
    Size(u64, u64),
    /// A duration from the first to the second.
    Duration(Duration, Duration),
    /// A number per time unit.
    Rate,
    /// A whole number from the first to the second.
    Integer(u32, u32),
    /// A number from the first to the second.
    Number(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Directives for the log: `"info,bezoar=debug"`.
    Filter,
    /// A secret: `env:NAME`, `file:PATH`, or the secret itself.
    Secret,
    /// A signing secret, `whsec_` and base64, or a list of them while one replaces another.
    SigningSecrets,
}

impl Kind {
    /// Describes what is accepted.
    pub fn expected(&self) -> String {
        match self {
            Self::Table => "a table".to_owned(),
            Self::Tables => "a list of tables".to_owned(),
            Self::Named => "a table for each name".to_owned(),
            Self::Retry => r#""jobs", "poison_queue", "outbox", "webhook", "broker" or a table"#.to_owned(),
            Self::Headers => r#"a table such as { X-Tenant = "lab" }"#.to_owned(),
            Self::Name => r#"a name such as "results""#.to_owned(),
            Self::Queue => r#"the name of a queue such as "results""#.to_owned(),
            Self::BrokerName => r#"a name on the broker such as "orders.dlq""#.to_owned(),
            Self::Queues => r#"a list of queues such as ["results"]"#.to_owned(),
            Self::Address => r#"an address and a port such as "127.0.0.1:8420""#.to_owned(),
            Self::StoreUrl => r#"a URL such as "sqlite:bezoar-data/bezoar.db" or "postgres://user@localhost/lab""#.to_owned(),
            Self::BrokerUrl(example) => format!("a URL such as {example:?}"),
            Self::File => r#"the path of a file"#.to_owned(),
            Self::Endpoint => r#"a URL such as "https://example.org/results""#.to_owned(),
            Self::Destination => {
                r#"a URL such as "https://example.org/results" or "mllp://example.org:2575""#.to_owned()
            }
            Self::Networks => r#"a list of networks such as ["10.0.0.0/8"]"#.to_owned(),
            Self::Automatic => r#""auto", true or false"#.to_owned(),
            Self::Size(least, most) => {
                format!("a size from {:?} to {:?}", size::format(*least), size::format(*most))
            }
            Self::Duration(least, most) => {
                let (least, most) = (duration::format(*least), duration::format(*most));
                format!("a duration from {least:?} to {most:?}")
            }
            Self::Rate => r#"a rate such as "100/s" or "5/m""#.to_owned(),
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::Number(least, most) => format!("a number from {least} to {most}"),
            Self::Boolean => "true or false".to_owned(),
            Self::Choice(words) => one_of(words),
            Self::Filter => r#"directives such as "info,bezoar=debug""#.to_owned(),
            Self::Secret => r#""env:NAME" or "file:PATH""#.to_owned(),
            Self::SigningSecrets => {
                r#""env:NAME" or "file:PATH" of a secret that starts with whsec_, or a list of them"#
                    .to_owned()
            }
        }
    }

    /// Whether values are secret, or may have a secret in them.
    pub fn holds_secrets(&self) -> bool {
        use Kind::{
            BrokerUrl, Destination, Endpoint, Headers, Named, Retry, Secret, SigningSecrets,
            StoreUrl, Table, Tables,
        };
        matches!(
            self,
            Secret
                | SigningSecrets
                | Headers
                | Endpoint
                | Destination
                | StoreUrl
                | BrokerUrl(_)
                | Retry
                | Table
                | Tables
                | Named
        )
    }

    /// Whether a value has an accepted type.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Table | Self::Headers | Self::Named => matches!(value, Value::Table(_)),
            Self::Tables => matches!(value, Value::List(_)),
            Self::Retry => matches!(value, Value::Text(_) | Value::Table(_)),
            Self::Networks | Self::Queues => matches!(value, Value::List(_)),
            Self::SigningSecrets => matches!(value, Value::Text(_) | Value::List(_)),
            Self::Automatic => matches!(value, Value::Text(_) | Value::Boolean(_)),
            Self::Integer(..) => matches!(value, Value::Integer(_)),
            Self::Number(..) => matches!(value, Value::Integer(_) | Value::Number(_)),
            Self::Boolean => matches!(value, Value::Boolean(_)),
            _ => matches!(value, Value::Text(_)),
        }
    }

    /// Converts untyped text to the accepted type.
    pub(super) fn typed(&self, text: String, origin: &Origin) -> Result<Value, InvalidValue> {
        let refused = |text: &str| {
            let problem = format!("is {}", super::invalid_value::quoted(text));
            InvalidValue::new(problem, format!("set {}", self.expected()))
        };
        let boolean = match text.as_str() {
            "true" => Some(Value::Boolean(true)),
            "false" => Some(Value::Boolean(false)),
            _ => None,
        };
        match self {
            Self::Boolean => boolean.ok_or_else(|| refused(&text)),
            Self::Automatic => Ok(boolean.unwrap_or(Value::Text(text))),
            Self::Integer(..) => text.parse().map(Value::Integer).map_err(|_| refused(&text)),
            Self::Number(..) => text.parse().map(Value::Number).map_err(|_| refused(&text)),
            Self::Networks | Self::Queues | Self::SigningSecrets => {
                Ok(Value::List(listed(&text, origin)))
            }
            Self::Table | Self::Tables | Self::Headers | Self::Named => Err(InvalidValue::new(
                "is a table and cannot be set directly",
                "set its keys one by one: append `__` and the key to the name",
            )),
            _ => Ok(Value::Text(text)),
        }
    }
}

/// `a,b` is a list of two.
fn listed(text: &str, origin: &Origin) -> Vec<Node> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| Node::new(Value::Text(item.to_owned()), origin.clone())).collect()
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        all => all.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(kind: Kind, text: &str) -> Result<&'static str, String> {
        let value = kind.typed(text.to_owned(), &Origin::Default);
        value.map(|value| value.kind()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn untyped_text_becomes_what_the_key_accepts() {
        for (kind, text, expected) in [
            (Kind::Boolean, "true", "a boolean"),
            (Kind::Integer(1, 10), "5", "a whole number"),
            (Kind::Number(0.0, 1.0), "0.5", "a number"),
            (Kind::Queues, "a, b", "a list"),
            (Kind::Automatic, "false", "a boolean"),
            (Kind::Automatic, "auto", "a string"),
            (Kind::Retry, "jobs", "a string"),
            (Kind::Name, "5", "a string"),
        ] {
            assert_eq!(typed(kind, text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_text_is_rejected_with_what_is_accepted() {
        for (kind, text, expected) in [
            (Kind::Boolean, "yes", "is \"yes\"; set true or false"),
            (Kind::Integer(1, 10), "x", "is \"x\"; set a whole number from 1 to 10"),
            (Kind::Number(0.0, 1.0), "", "is \"\"; set a number from 0 to 1"),
        ] {
            assert_eq!(typed(kind, text), Err(expected.to_owned()));
        }
        assert!(typed(Kind::Table, "x").is_err());
    }

    #[test]
    fn choices_are_listed() {
        assert_eq!(one_of(&["a", "b", "c"]), r#""a", "b" or "c""#);
        assert_eq!(one_of(&["a"]), r#""a""#);
    }
}

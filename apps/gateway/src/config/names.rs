//! Names of routes, tokens and queues, and enumerations.

use std::fmt;

use bezoar::QueueName;

use super::{
    InvalidValue, Kind,
    invalid_value::quoted,
    tree::Value,
    values::{Parsed, text},
};

/// The longest name.
const NAME_LIMIT: usize = 64;

/// The name of a route or token: up to 64 letters, digits, `-`, `_` and `.`. Valid as a metric label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Validates a name.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`] if it is empty, too long, or has other characters.
    pub fn new(text: &str) -> Result<Self, InvalidValue> {
        let usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if (1..=NAME_LIMIT).contains(&text.len()) && text.chars().all(usual) {
            return Ok(Self(text.into()));
        }
        let remedy = format!("use 1 to {NAME_LIMIT} letters, digits, `-`, `_` and `.`");
        Err(InvalidValue::not_a("name", text, remedy))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Parsed for Name {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        Self::new(text(value)?)
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// The name of an exchange, queue or routing key on a broker: up to 255 bytes, also none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerName(Box<str>);

impl BrokerName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Parsed for BrokerName {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        match text(value)? {
            long if long.len() > 255 => {
                Err(InvalidValue::new("is longer than 255 bytes", "use a shorter name"))
            }
            name => Ok(Self(name.into())),
        }
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

/// A queue of the embedded store is a plain name, a queue of a broker `NAME/QUEUE`.
impl Parsed for QueueName {
    fn parse(_: &Kind, value: &Value) -> Result<Self, InvalidValue> {
        let text = text(value)?;
        if let Some((broker, queue)) = text.split_once('/')
            && (Name::new(broker).is_err() || queue.is_empty())
        {
            let remedy = "use NAME/QUEUE, where NAME is the name of a [transports.NAME]";
            return Err(InvalidValue::new(format!("is {}", quoted(text)), remedy));
        }
        Self::new(text).map_err(|invalid| {
            InvalidValue::new(invalid.problem, "use 1 to 255 bytes of printable text")
        })
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

/// An enumeration whose values are written as words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$each])* $variant,)+ }

        impl $name {
            /// All words.
            pub const NAMES: &'static [&'static str] = &[$($word,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::config::InvalidValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::config::names::no_choice(text, Self::NAMES)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::config::values::Parsed for $name {
            fn parse(
                _: &$crate::config::Kind,
                value: &$crate::config::tree::Value,
            ) -> Result<Self, $crate::config::InvalidValue> {
                $crate::config::values::text(value)?.parse()
            }

            fn shown(&self) -> String {
                self.to_string()
            }
        }
    };
}
pub(crate) use choice;

/// The error for a word that is not one of `words`.
pub(crate) fn no_choice(text: &str, words: &'static [&'static str]) -> InvalidValue {
    let remedy = match super::suggest::nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean {word:?}?"),
        None => format!("expected {}", Kind::Choice(words).expected()),
    };
    InvalidValue::new(format!("is {}", quoted(text)), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_labels() {
        for good in ["a", "results", "lab.results-2_b", &"x".repeat(64)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(65)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_queue_may_be_on_a_broker() {
        let parse = |text: &str| QueueName::parse(&Kind::Queue, &Value::Text(text.to_owned()));
        for good in ["results", "hospital/results", "hospital/a/b"] {
            assert_eq!(parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "/results", "hospital/", "a b/results"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_choice_has_a_suggestion() {
        let invalid = |text| no_choice(text, &["viewer", "operator", "admin"]).to_string();
        assert_eq!(invalid("oprator"), "is \"oprator\"; did you mean \"operator\"?");
        assert_eq!(invalid("root"), "is \"root\"; expected \"viewer\", \"operator\" or \"admin\"");
    }
}

//! The receipt: identifies a lease to its transport.

use std::fmt;

/// Identifies a lease to its transport. Only the transport that created it can read it; any other
/// transport refuses it as a lost lease.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt(Content);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Content {
    Numbers([i64; 3]),
    Text(Box<str>),
}

/// Constructors and accessors for transports only.
impl Receipt {
    /// Creates a receipt from numbers, such as the message's key, the lease's token and the row's
    /// position.
    pub const fn from_numbers(numbers: [i64; 3]) -> Self {
        Self(Content::Numbers(numbers))
    }

    /// Creates a receipt from text.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(Content::Text(text.into()))
    }

    /// The numbers of a receipt that was created from numbers.
    pub const fn numbers(&self) -> Option<[i64; 3]> {
        match &self.0 {
            Content::Numbers(numbers) => Some(*numbers),
            Content::Text(_) => None,
        }
    }

    /// The text of a receipt that was created from text.
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Content::Numbers(_) => None,
            Content::Text(text) => Some(text),
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt(..)")
    }
}

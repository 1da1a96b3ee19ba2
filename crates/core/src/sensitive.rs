//! Values that cannot be printed by accident.

use std::fmt;

use bytes::Bytes;

/// A value that may hold personal data.
///
/// It has no `Display`, no serde, and a `Debug` that shows only its size, so that a log line, a panic
/// or a failed assertion never shows it. Only [`reveal`](Self::reveal) and
/// [`into_revealed`](Self::into_revealed) give access to it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Sensitive<T>(T);

/// The payload of a message.
pub type Body = Sensitive<Bytes>;
/// The value of a message header.
pub type HeaderValue = Sensitive<String>;
/// The text of an error. At most [`DETAIL_LIMIT_BYTES`] of it are kept.
pub type Detail = Sensitive<String>;

/// The longest error text that is kept with an attempt.
pub const DETAIL_LIMIT_BYTES: usize = 4096;

impl<T> Sensitive<T> {
    /// Hides `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// A reference to the value. The caller is responsible for where it ends up.
    pub const fn reveal(&self) -> &T {
        &self.0
    }

    /// The value itself. The caller is responsible for where it ends up.
    pub fn into_revealed(self) -> T {
        self.0
    }
}

impl<T: AsRef<[u8]>> Sensitive<T> {
    /// The size in bytes, which is safe to show.
    pub fn len(&self) -> usize {
        self.0.as_ref().len()
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Detail {
    /// Hides an error's text, cut to [`DETAIL_LIMIT_BYTES`] at a character boundary.
    pub fn truncated(mut text: String) -> Self {
        text.truncate(text.floor_char_boundary(DETAIL_LIMIT_BYTES));
        Self(text)
    }
}

impl<T: AsRef<[u8]>> fmt::Debug for Sensitive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[hidden, {} bytes]", self.len())
    }
}

impl From<&str> for HeaderValue {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for HeaderValue {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_only_the_size() {
        let body = Body::from("patient Doe");
        assert_eq!(format!("{body:?}"), "[hidden, 11 bytes]");
        assert!(!format!("{:#?}", Some(body)).contains("Doe"));
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let detail = Detail::truncated("é".repeat(DETAIL_LIMIT_BYTES));
        assert_eq!(detail.len(), DETAIL_LIMIT_BYTES);
        let odd = Detail::truncated(format!("x{}", "é".repeat(DETAIL_LIMIT_BYTES)));
        assert_eq!(odd.len(), DETAIL_LIMIT_BYTES - 1);
    }
}

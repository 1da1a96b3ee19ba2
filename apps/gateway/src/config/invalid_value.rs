//! Why a value is invalid.

/// Why a value is invalid, and a remedy. Worded to follow the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct InvalidValue {
    /// What is wrong: `is "30", which has no unit`.
    pub problem: String,
    /// What to do: `use "30s"`.
    pub remedy: String,
}

impl InvalidValue {
    /// An error with a problem and a remedy.
    pub fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }

    /// `text` is not a `what`.
    pub(crate) fn not_a(what: &str, text: &str, remedy: impl Into<String>) -> Self {
        Self::new(format!("is {}, which is not a valid {what}", quoted(text)), remedy)
    }
}

/// The maximum length of a quoted value.
const QUOTED_LIMIT_CHARS: usize = 60;

/// Quotes `text` on one line, truncated if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_LIMIT_CHARS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        let long = quoted(&"é".repeat(1000));
        assert_eq!(long.chars().count(), QUOTED_LIMIT_CHARS + 3);
    }
}

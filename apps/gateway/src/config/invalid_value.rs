//! Why a value is not taken.

/// Why a value is not taken, and what would be. Fit to follow the name of what was set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct InvalidValue {
    /// What is wrong: `is "30", which has no unit`.
    pub problem: String,
    /// What to do: `write "30s"`.
    pub remedy: String,
}

impl InvalidValue {
    /// Says what is wrong and what to do.
    pub fn new(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: remedy.into() }
    }

    /// `text` is no `what`.
    pub(crate) fn not_a(what: &str, text: &str, remedy: impl Into<String>) -> Self {
        Self::new(format!("is {}, which is no {what}", quoted(text)), remedy)
    }
}

/// How much of a value is repeated in a message.
const QUOTED_LIMIT_CHARS: usize = 60;

/// `text` in quotes, on one line, and not all of it if it is long.
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
    fn what_is_quoted_stays_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        let long = quoted(&"é".repeat(1000));
        assert_eq!(long.chars().count(), QUOTED_LIMIT_CHARS + 3);
    }
}

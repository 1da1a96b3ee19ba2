//! Why somebody does something, as the audit log keeps it.

/// The longest that a gateway accepts.
const LIMIT_CHARS: usize = 500;

/// Reads a reason.
pub(crate) fn parse(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is written to the audit log, and so cannot be empty");
    }
    if text.chars().count() > LIMIT_CHARS || text.contains(char::is_control) {
        return Err("write one line of at most 500 characters");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_line_that_says_something() {
        assert_eq!(parse(" ticket 7 "), Ok("ticket 7".to_owned()));
        for text in ["", "  ", "a\nb", &"x".repeat(501)] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

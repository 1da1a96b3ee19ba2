//! The reason for an action, which the audit log records.

/// The longest reason that a gateway accepts.
const LIMIT_CHARS: usize = 500;

/// Parses a reason.
pub(crate) fn parse(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("the audit log needs a reason; it must not be empty");
    }
    if text.chars().count() > LIMIT_CHARS || text.contains(char::is_control) {
        return Err("a reason is one line of at most 500 characters");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_non_empty_line() {
        assert_eq!(parse(" ticket 7 "), Ok("ticket 7".to_owned()));
        for text in ["", "  ", "a\nb", &"x".repeat(501)] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}

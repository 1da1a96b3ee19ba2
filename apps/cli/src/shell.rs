//! Quotes arguments in commands that users copy.

use std::borrow::Cow;

/// Quotes an argument for a shell, if necessary.
pub(crate) fn quote(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted() {
        for (text, expected) in [
            ("hospital/results", "hospital/results"),
            ("v1:0123456789abcdef", "v1:0123456789abcdef"),
            ("a b", "'a b'"),
            ("$(rm)", "'$(rm)'"),
            ("it's", r"'it'\''s'"),
            ("~", "'~'"),
            ("", "''"),
        ] {
            assert_eq!(quote(text), expected);
        }
    }
}

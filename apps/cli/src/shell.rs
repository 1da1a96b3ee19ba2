//! Commands that people copy.

use std::borrow::Cow;

/// An argument as a shell reads it: in quotes only where it must be.
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
    fn what_a_shell_would_change_is_quoted() {
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

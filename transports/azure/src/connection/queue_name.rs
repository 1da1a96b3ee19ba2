//! Azure's rule for the names of queues.

use bezoar_core::{Invalid, QueueName};

const RULE: &str = "is not a valid name on Azure: use 3 to 63 lowercase letters, digits and hyphens, begin and end \
                    with a letter or digit, and never put two hyphens in a row";

/// Checks that Azure accepts the name of a queue.
///
/// # Errors
///
/// [`Invalid`] states Azure's rule.
pub fn check(name: &QueueName) -> Result<(), Invalid> {
    let text = name.as_str();
    let length = (3..=63).contains(&text.len());
    let alphabet = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == b'-';
    let hyphens = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    if length && text.as_bytes().iter().all(alphabet) && !hyphens {
        return Ok(());
    }
    Err(Invalid::new("queue name", format!("{text:?} {RULE}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_azure() {
        let long = "x".repeat(63);
        for (name, valid) in [
            ("abc", true),
            ("results-poison", true),
            ("0-0", true),
            (long.as_str(), true),
            (&format!("{long}x"), false),
            ("ab", false),
            ("Results", false),
            ("-results", false),
            ("results-", false),
            ("a--b", false),
            ("a_b", false),
            ("größe", false),
            ("a/b", false),
        ] {
            let checked = check(&QueueName::new(name).unwrap());
            assert_eq!(checked.is_ok(), valid, "{name}: {checked:?}");
        }
    }

    #[test]
    fn the_error_states_the_rule() {
        let refused = check(&QueueName::new("No").unwrap()).unwrap_err().to_string();
        assert!(refused.contains("3 to 63 lowercase letters, digits and hyphens"), "{refused}");
    }
}

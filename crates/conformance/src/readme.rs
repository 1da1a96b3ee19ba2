//! The table of capabilities in a transport's README.

use bezoar_core::Capabilities;

/// Checks that a README has a row for every capability, with the value that the transport declares.
///
/// # Panics
///
/// If a row is missing or has another value. The message lists these rows.
pub fn assert_documented(readme: &str, capabilities: &Capabilities) {
    let missing: Vec<_> = capabilities
        .rows()
        .into_iter()
        .map(|(name, value)| format!("| `{name}` | {value} |"))
        .filter(|row| !readme.lines().any(|line| line.starts_with(row.as_str())))
        .collect();
    assert!(missing.is_empty(), "the README lacks these rows:\n{}", missing.join("\n"));
}

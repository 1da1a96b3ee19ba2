//! The parts of Markdown that the checks need.

/// The numbered lines outside of fenced code, from 1, without the code in backticks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then(|| (number, without_code(line)))
    })
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The text of a heading of any level.
pub(crate) fn heading(line: &str) -> Option<&str> {
    line.starts_with('#').then(|| line.trim_matches('#').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_no_prose() {
        let text = "one `[x](y)` two\n```rust\n# three\n```\n[`four`](five)";
        let lines: Vec<_> = prose(text).collect();
        assert_eq!(lines, [(1, "one  two".to_owned()), (5, "[](five)".to_owned())]);
    }

    #[test]
    fn headings_have_any_level() {
        assert_eq!(heading("## Capabilities"), Some("Capabilities"));
        assert_eq!(heading("Capabilities"), None);
    }
}

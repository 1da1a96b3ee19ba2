//! Suggestions for misspelt words.

/// The candidate nearest to `word`, if it is near enough to be a typo.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    let length = word.chars().count();
    if length > 64 {
        return None;
    }
    candidates
        .into_iter()
        // Insertions, deletions, replacements and swaps of neighbours.
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= length.max(candidate.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_recognized() {
        let known = ["listen", "max_body", "drain", "route", "timeout", "to"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("lsiten", Some("listen")),
            ("LISTEN", Some("listen")),
            ("routes", Some("route")),
            ("max-body", Some("max_body")),
            ("timout", Some("timeout")),
            ("t", Some("to")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}

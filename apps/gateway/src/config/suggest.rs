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
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= length.max(candidate.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edit distance: insertions, deletions, replacements and swaps of neighbours.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let (mut before, mut last) = (Vec::new(), (0..=other.len()).collect::<Vec<_>>());
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = last[j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                let swapped: &usize = &before[j - 2];
                best = best.min(swapped + 1);
            }
            row.push(best);
        }
        (before, last) = (last, row);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn the_distance_is_a_metric(one in "\\PC{0,12}", other in "\\PC{0,12}") {
            prop_assert_eq!(distance(&one, &one), 0);
            prop_assert_eq!(distance(&one, &other), distance(&other, &one));
            prop_assert!(distance(&one, &other) <= one.chars().count().max(other.chars().count()));
        }
    }
}

//! Sources that are released are readable and finished.

use super::{problem::Problem, tree::Tree};

/// Folders that are released. Tasks and benchmarks are not.
const HOUSES: &[&str] = &["crates", "transports", "apps"];

/// Above this, a file holds more than one idea.
const LINE_LIMIT: usize = 600;

/// Marks of unfinished work.
const UNFINISHED: &[&str] = &["todo!(", "FIXME"];

/// Finds files that are too long, and marks of unfinished work.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    let files = tree.files(HOUSES, ".rs");
    files.flat_map(|(path, text)| [too_long(path, text), unfinished(path, text)].concat()).collect()
}

fn too_long(path: &str, text: &str) -> Vec<Problem> {
    match text.lines().count() {
        ..=LINE_LIMIT => Vec::new(),
        count => {
            let what = format!("has {count} lines, the limit is {LINE_LIMIT}");
            vec![Problem::new(path, what, "split it by idea")]
        }
    }
}

fn unfinished(path: &str, text: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for mark in UNFINISHED.iter().filter(|mark| line.contains(**mark)) {
            let what = format!("contains `{mark}`");
            found.push(Problem::new(format!("{path}:{number}"), what, "finish it"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = problems(&Tree::of(&[(path, text)]));
        let lines: Vec<_> = found.iter().map(Problem::to_string).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn long_files_are_reported() {
        let path = "apps/cli/src/main.rs";
        check(path, &"\n".repeat(LINE_LIMIT), &[]);
        let expected = "apps/cli/src/main.rs: has 601 lines, the limit is 600; split it by idea";
        check(path, &"\n".repeat(LINE_LIMIT + 1), &[expected]);
    }

    #[test]
    fn unfinished_work_is_reported_with_its_line() {
        let expected = [
            "crates/core/src/lib.rs:2: contains `todo!(`; finish it",
            "crates/core/src/lib.rs:3: contains `FIXME`; finish it",
        ];
        check("crates/core/src/lib.rs", "fn a() {\n    todo!()\n} // FIXME: b\n", &expected);
    }

    #[test]
    fn only_what_ships_is_looked_at() {
        check("xtask/src/main.rs", "FIXME", &[]);
        check("crates/core/notes.md", "FIXME", &[]);
    }
}

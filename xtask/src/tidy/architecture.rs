//! ARCHITECTURE.md and the folders agree, because a wrong map is worse than none.

use super::{problem::Problem, tree::Tree, workspace::Workspace};

const MAP: &str = "ARCHITECTURE.md";
const HOUSES: &[&str] = &["crates/", "transports/", "apps/"];

/// Finds members that the map leaves out, and places on the map that do not exist.
pub(crate) fn problems(tree: &Tree, workspace: &Workspace) -> Vec<Problem> {
    match tree.text(MAP) {
        None => vec![Problem::new(MAP, "is missing", "write a map of the folders")],
        Some(map) => [unmentioned(map, workspace), vanished(map, tree)].concat(),
    }
}

fn unmentioned(map: &str, workspace: &Workspace) -> Vec<Problem> {
    let folders = workspace.members.iter().map(|member| member.folder.as_str());
    folders
        .filter(|folder| !mentions(map).any(|(_, path)| is_within(path, folder)))
        .map(|folder| {
            Problem::new(MAP, format!("does not mention `{folder}`"), "say what the folder is for")
        })
        .collect()
}

fn vanished(map: &str, tree: &Tree) -> Vec<Problem> {
    mentions(map)
        .filter(|(_, path)| HOUSES.iter().any(|house| path.starts_with(house)))
        .filter(|(_, path)| !tree.exists(path))
        .map(|(line, path)| {
            let what = format!("mentions `{path}`, which does not exist");
            let remedy = "correct it, or write a placeholder as `transports/<name>`";
            Problem::new(format!("{MAP}:{line}"), what, remedy)
        })
        .collect()
}

/// Everything that could be a path, with its line. Code is included, because most paths are there.
fn mentions(map: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(map.lines()).flat_map(|(number, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && !"_-./".contains(c));
        words.map(move |word| (number, bare(word)))
    })
}

/// Without the `./` of links, the `/` of folders and the full stop of sentences.
fn bare(word: &str) -> &str {
    word.strip_prefix("./").unwrap_or(word).trim_end_matches(['/', '.'])
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::Member;

    #[track_caller]
    fn check(map: &str, expected: &[&str]) {
        let tree = Tree::of(&[
            (MAP, map),
            ("crates/core/src/lib.rs", ""),
            ("transports/sqlite/src/lib.rs", ""),
        ]);
        let members = vec![
            Member::new("bezoar-core", "crates/core", &[]),
            Member::new("bezoar-sqlite", "transports/sqlite", &[]),
        ];
        let found = problems(&tree, &Workspace { members });
        let lines: Vec<_> = found.iter().map(Problem::to_string).collect();
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, part) in lines.iter().zip(expected) {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_map_that_agrees_passes() {
        check("`crates/core/src/lib.rs`, then [SQLite](./transports/sqlite/).", &[]);
        check(
            "crates/core, transports/sqlite. New: `transports/<name>`, crates/*, https://x/crates/y",
            &[],
        );
    }

    #[test]
    fn a_member_that_is_not_mentioned_is_reported() {
        check("`crates/core` only", &["does not mention `transports/sqlite`"]);
        check(
            "`crates/core-old`: transports/sqlite",
            &["does not mention `crates/core`", "ARCHITECTURE.md:1: mentions `crates/core-old`"],
        );
    }

    #[test]
    fn a_place_that_does_not_exist_is_reported_with_its_line() {
        let map = "crates/core and transports/sqlite\nand `apps/cli/src/main.rs`.";
        check(map, &["ARCHITECTURE.md:2: mentions `apps/cli/src/main.rs`, which does not exist"]);
    }

    #[test]
    fn a_missing_map_is_reported() {
        let found = problems(&Tree::of(&[]), &Workspace { members: Vec::new() });
        assert_eq!(found.len(), 1);
    }
}

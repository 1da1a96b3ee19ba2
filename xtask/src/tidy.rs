//! `cargo xtask tidy`: checks that the compiler cannot make.
//!
//! Each check is a function from data to problems; only `tree.rs` and `workspace.rs` read files.

mod anatomy;
mod architecture;
mod clocks;
mod direction;
mod links;
mod lints;
mod markdown;
mod problem;
mod readme;
mod sources;
mod tree;
mod workspace;

use std::path::Path;

use anyhow::{Result, ensure};

use self::{problem::Problem, tree::Tree, workspace::Workspace};
use crate::say::say;

/// Reports all problems of the repository at once, and fails if there are any.
pub(crate) fn run(root: &Path) -> Result<()> {
    let problems = problems(&Tree::read(root)?, &Workspace::read(root)?);
    for problem in &problems {
        say(problem);
    }
    ensure!(problems.is_empty(), "tidy found {} problem(s)", problems.len());
    say("tidy");
    Ok(())
}

fn problems(tree: &Tree, workspace: &Workspace) -> Vec<Problem> {
    [
        direction::problems(workspace),
        lints::problems(tree, workspace),
        clocks::problems(tree, workspace),
        anatomy::problems(tree),
        architecture::problems(tree, workspace),
        readme::problems(tree),
        links::problems(tree),
        sources::problems(tree),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::{workspace::Member, *};

    #[test]
    fn a_sound_repository_has_no_problems() {
        let tree = Tree::of(&[
            (
                "README.md",
                "`cargo run --release -- demo`, `cargo xtask test`, [map](ARCHITECTURE.md)",
            ),
            ("ARCHITECTURE.md", "`crates/core` is the contract"),
            ("crates/core/Cargo.toml", "[lints]\nworkspace = true\n"),
            ("crates/core/clippy.toml", "std::time::Instant::now, std::time::Instant::elapsed"),
            ("crates/core/src/lib.rs", "//! The contract.\n"),
        ]);
        let core = Member::new("bezoar-core", "crates/core", &[]);
        assert_eq!(problems(&tree, &Workspace { members: vec![core] }), []);
    }

    #[test]
    fn problems_of_every_check_come_at_once() {
        let tree = Tree::of(&[
            ("README.md", "[gone](gone.md)"),
            ("ARCHITECTURE.md", "`crates/gone`"),
            ("crates/core/Cargo.toml", ""),
            ("crates/core/src/lib.rs", "todo!()"),
            ("transports/paper/src/lib.rs", ""),
        ]);
        let core = Member::new("bezoar-core", "crates/core", &["bezoar-paper transports/paper"]);
        let found = problems(&tree, &Workspace { members: vec![core] });
        let what: String = found.iter().map(|problem| format!("{problem}\n")).collect();
        let expected = ["depends on", "lints", "Instant::now", "options.rs", "crates/gone", "demo"];
        for part in expected.into_iter().chain(["gone.md", "todo!"]) {
            assert!(what.contains(part), "`{part}` is missing in:\n{what}");
        }
    }
}

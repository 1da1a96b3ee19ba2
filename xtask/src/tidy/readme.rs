//! README.md names the two commands that a newcomer needs first.

use super::{problem::Problem, tree::Tree};

const README: &str = "README.md";
const COMMANDS: &[&str] = &["cargo run --release -- demo", "cargo xtask test"];

/// Commands that the README leaves out.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    let text = tree.text(README).unwrap_or_default();
    COMMANDS
        .iter()
        .filter(|command| !text.contains(*command))
        .map(|command| {
            Problem::new(README, format!("does not mention `{command}`"), "say what it shows")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_left_out_is_reported() {
        for command in COMMANDS {
            let found = problems(&Tree::of(&[(README, command)]));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(!found[0].to_string().contains(command), "{found:?}");
        }
        assert_eq!(problems(&Tree::of(&[])).len(), 2);
        assert_eq!(problems(&Tree::of(&[(README, &COMMANDS.join("\n"))])), []);
    }
}

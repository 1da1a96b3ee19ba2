//! Every member inherits the lints of the workspace; without the line cargo applies none of them.

use super::{problem::Problem, tree::Tree, workspace::Workspace};

/// Members that opted out, or forgot to opt in.
pub(crate) fn problems(tree: &Tree, workspace: &Workspace) -> Vec<Problem> {
    let manifests = workspace.members.iter().map(|member| member.manifest());
    manifests
        .filter(|path| !tree.text(path).is_some_and(inherits_lints))
        .map(|path| {
            Problem::new(
                path,
                "does not inherit the lints",
                "add `[lints]` with `workspace = true`",
            )
        })
        .collect()
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = String::new();
    manifest.lines().map(bare).any(|line| {
        if line.starts_with('[') {
            section.clone_from(&line);
        }
        section == "[lints]" && line == "workspace=true"
    })
}

/// The line without comment and spaces.
fn bare(line: &str) -> String {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::Member;

    #[track_caller]
    fn check(manifest: &str, expected: usize) {
        let tree = Tree::of(&[("crates/core/Cargo.toml", manifest)]);
        let members = vec![Member::new("bezoar-core", "crates/core", &[])];
        assert_eq!(problems(&tree, &Workspace { members }).len(), expected, "{manifest}");
    }

    #[test]
    fn a_member_that_does_not_inherit_the_lints_is_reported() {
        check("[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n", 0);
        check("[lints] # all of them\nworkspace=true", 0);
        check("[package]\nname = \"x\"\n", 1);
        check("[lints]\n# workspace = true\n", 1);
        check("[lints]\n[dependencies.serde]\nworkspace = true\n", 1);
    }
}

//! Crates in which time is an argument forbid reading it.
//!
//! Clippy applies only the `clippy.toml` that is nearest to a crate. So these crates have one of their own, which also forbids
//! `std::time::Instant`, and every such file has to repeat the rules of the root.

use super::{problem::Problem, tree::Tree, workspace::Workspace};

/// The crates in which only `clock.rs` reads a clock of the machine.
const TIME_IS_PASSED_IN: &[&str] = &["crates/core", "crates/ops", "crates/runtime"];

/// Methods that only these crates forbid: transports, programs and benchmarks may measure real
/// time.
const FORBIDDEN: &[&str] = &["std::time::Instant::now", "std::time::Instant::elapsed"];

/// Finds rules that a crate's `clippy.toml` lacks.
pub(crate) fn problems(tree: &Tree, workspace: &Workspace) -> Vec<Problem> {
    let root = rules(tree.text("clippy.toml").unwrap_or_default());
    let folders = workspace.members.iter().map(|member| member.folder.as_str());
    folders.flat_map(|folder| missing(tree, folder, &root)).collect()
}

fn missing(tree: &Tree, folder: &str, root: &[&str]) -> Vec<Problem> {
    let path = format!("{folder}/clippy.toml");
    let own = tree.text(&path);
    let repeated = if own.is_some() { root } else { &[] };
    let forbidden = if TIME_IS_PASSED_IN.contains(&folder) { FORBIDDEN } else { &[] };
    let has = |rule: &str| rules(own.unwrap_or_default()).iter().any(|line| line.contains(rule));
    let lacks = repeated.iter().chain(forbidden).filter(|rule| !has(rule));
    let problem = |rule| Problem::new(&path, format!("lacks the rule `{rule}`"), "add it");
    lacks.map(problem).collect()
}

/// The lines that are neither empty nor comments.
fn rules(config: &str) -> Vec<&str> {
    let lines = config.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::Member;

    const ROOT: &str = "a = true\nmethods = [\n    { path = \"x::now\" },\n]\n";

    #[track_caller]
    fn check(folder: &str, config: Option<&str>, expected: usize) {
        let path = format!("{folder}/clippy.toml");
        let own = config.map(|config| (path.as_str(), config));
        let files: Vec<_> = [("clippy.toml", ROOT)].into_iter().chain(own).collect();
        let members = vec![Member::new("bezoar-x", folder, &[])];
        let found = problems(&Tree::of(&files), &Workspace { members });
        assert_eq!(found.len(), expected, "{config:?}");
    }

    #[test]
    fn a_crate_whose_time_is_passed_in_forbids_the_clocks_of_the_machine() {
        let both = String::from_iter(
            FORBIDDEN.iter().map(|path| format!("    {{ path = \"{path}\" }},\n")),
        );
        let right = ROOT.replace("]\n", &format!("{both}]\n"));
        check("crates/ops", Some(&right), 0);
        check("crates/ops", None, 2);
        check("crates/ops", Some(ROOT), 2);
        check("crates/ops", Some(&right.replace("    { path = \"std", "    # { path = \"std")), 2);
    }

    #[test]
    fn another_crate_needs_no_rules_of_its_own_but_may_not_drop_the_roots() {
        check("apps/cli", None, 0);
        check("apps/cli", Some(ROOT), 0);
        check("apps/cli", Some("a = true\n"), 3);
    }
}

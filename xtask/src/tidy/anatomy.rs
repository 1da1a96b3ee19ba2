//! All transports have the same files, so that a reader who knows one knows where to look in the
//! others.

use super::{
    markdown::{heading, prose},
    problem::Problem,
    tree::Tree,
};

/// The files of every transport, and what each is for.
const PARTS: &[(&str, &str)] = &[
    ("src/options.rs", "parse the transport's options there"),
    ("src/transport.rs", "implement `Transport` there"),
    ("src/admin.rs", "implement `QueueAdmin` there"),
    ("src/error.rs", "map native errors there, in one match"),
    ("tests/conformance.rs", "run the conformance suite there"),
    ("README.md", "describe the transport and its capabilities there"),
];

/// Finds transports that lack a file.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    let folders =
        tree.folders_in("transports").into_iter().map(|name| format!("transports/{name}"));
    folders
        .flat_map(|folder| [missing_parts(tree, &folder), missing_table(tree, &folder)].concat())
        .collect()
}

fn missing_parts(tree: &Tree, folder: &str) -> Vec<Problem> {
    PARTS
        .iter()
        .map(|(part, remedy)| (format!("{folder}/{part}"), *remedy))
        .filter(|(path, _)| tree.text(path).is_none())
        .map(|(path, remedy)| Problem::new(path, "is missing", remedy))
        .collect()
}

fn missing_table(tree: &Tree, folder: &str) -> Vec<Problem> {
    let path = format!("{folder}/README.md");
    match tree.text(&path) {
        Some(text) if !has_capability_table(text) => vec![Problem::new(
            path,
            "has no capability table",
            "add a heading `Capabilities` with a table under it",
        )],
        _ => Vec::new(),
    }
}

fn has_capability_table(readme: &str) -> bool {
    prose(readme)
        .skip_while(|(_, line)| heading(line) != Some("Capabilities"))
        .skip(1)
        .take_while(|(_, line)| heading(line).is_none())
        .any(|(_, line)| line.starts_with('|'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# Paper\n\n## Capabilities\n\n| leases | no |\n| --- | --- |\n";

    fn transport(readme: &str, left_out: &str) -> Tree {
        let paths: Vec<_> =
            PARTS.iter().map(|(part, _)| format!("transports/paper/{part}")).collect();
        let kept = paths.iter().filter(|path| left_out.is_empty() || !path.ends_with(left_out));
        let files: Vec<_> = kept.map(|path| (path.as_str(), readme)).collect();
        Tree::of(&[files.as_slice(), &[("transports/paper/Cargo.toml", "")]].concat())
    }

    #[test]
    fn a_complete_transport_passes() {
        assert_eq!(problems(&transport(README, "")), []);
    }

    #[test]
    fn every_missing_part_is_reported() {
        for (part, _) in PARTS {
            let found = problems(&transport(README, part));
            let [problem] = found.as_slice() else { panic!("{part}: {found:?}") };
            let expected = format!("transports/paper/{part}: is missing");
            assert!(problem.to_string().starts_with(&expected), "{problem}");
        }
    }

    #[test]
    fn a_readme_without_capability_table_is_reported() {
        for readme in ["# Paper\n", "## Capabilities\n\nMany.\n\n## Options\n\n| a |\n", "| a |\n"]
        {
            assert_eq!(problems(&transport(readme, "")).len(), 1, "{readme}");
        }
    }
}

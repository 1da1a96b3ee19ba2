//! Links between documents have existing targets.

use super::{markdown::prose, problem::Problem, tree::Tree};

/// Finds relative links in Markdown files whose targets do not exist.
pub(crate) fn problems(tree: &Tree) -> Vec<Problem> {
    let documents = tree.files(&[""], ".md");
    documents.flat_map(|(path, text)| broken(tree, path, text)).collect()
}

fn broken(tree: &Tree, document: &str, text: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for target in targets(&line).into_iter().filter(|target| is_broken(tree, document, target))
        {
            let what = format!("links to `{target}`, which does not exist");
            found.push(Problem::new(format!("{document}:{number}"), what, "correct the link"));
        }
    }
    found
}

/// The link targets in a line: `[text](target)`, `[label]: target`, and HTML's `href` and `src`.
fn targets(line: &str) -> Vec<&str> {
    let inline = after(line, "](", ')');
    let html = after(line, "href=\"", '"').chain(after(line, "src=\"", '"'));
    inline.chain(html).chain(definition(line)).filter_map(without_title).collect()
}

/// The texts between each `start` and the next `end`.
fn after<'a>(line: &'a str, start: &'a str, end: char) -> impl Iterator<Item = &'a str> {
    line.split(start).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
}

fn definition(line: &str) -> Option<&str> {
    let (label, target) = line.strip_prefix('[')?.split_once("]:")?;
    // Footnotes have the same form.
    (!label.starts_with('^')).then_some(target)
}

fn without_title(target: &str) -> Option<&str> {
    Some(target.split_whitespace().next()?.trim_matches(['<', '>']))
}

fn is_broken(tree: &Tree, document: &str, target: &str) -> bool {
    let path = target.split(['#', '?']).next().unwrap_or_default();
    !path.is_empty()
        && !is_external(path)
        && !resolve(document, path).is_some_and(|path| tree.exists(&path))
}

/// `https:`, `mailto:`, `//host`: a colon before the first slash ends a scheme.
fn is_external(path: &str) -> bool {
    path.starts_with("//") || path.split('/').next().is_some_and(|first| first.contains(':'))
}

/// The path from the root, unless it leaves the repository. As on code hosts, `/` is the root.
fn resolve(document: &str, path: &str) -> Option<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if path.starts_with('/') { "" } else { folder };
    let mut parts = Vec::new();
    for part in start.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let text = format!("# Title\n{line}\n");
        let tree = Tree::of(&[
            ("README.md", ""),
            ("docs/guide/start.md", &text),
            ("docs/guide/retry.md", ""),
            ("docs/flow.png", ""),
        ]);
        let found: Vec<_> = problems(&tree).iter().map(Problem::to_string).collect();
        let place = "docs/guide/start.md:2: links to";
        let expected: Vec<_> = expected
            .iter()
            .map(|target| format!("{place} `{target}`, which does not exist; correct the link"))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        check(
            "[a](retry.md), [b](./retry.md#delays \"title\"), [c](../../README.md), [d](..)",
            &[],
        );
        check("![flow](<../flow.png>) <img src=\"../flow.png\"> [root](/docs/guide/)", &[]);
        check("[label]: retry.md", &[]);
    }

    #[test]
    fn broken_links_are_reported_with_their_line() {
        check(
            "[a](gone.md) and [b](retry.md) and [c](guide/retry.md)",
            &["gone.md", "guide/retry.md"],
        );
        check("[label]: gone.md#part", &["gone.md#part"]);
        check("<a href=\"gone.html\">x</a>", &["gone.html"]);
        check("[outside](../../../elsewhere.md)", &["../../../elsewhere.md"]);
    }

    #[test]
    fn what_is_no_relative_link_is_left_alone() {
        check("[a](https://example.org/x) [b](mailto:a@example.org) [c](#part) [d](//host/x)", &[]);
        check("in code: `[a](gone.md)`", &[]);
        check("```\n[a](gone.md)\n```", &[]);
        check("[^1]: a footnote", &[]);
    }
}

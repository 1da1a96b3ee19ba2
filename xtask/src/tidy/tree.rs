//! The files of the repository, read once, so that checks are plain functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};

/// The kinds of files whose text is read; for all others only the path is known.
const READ: &[&str] = &["rs", "md", "toml"];

/// Folders that are not sources.
const SKIPPED: &[&str] = &[".git", "target", "bezoar-data", "node_modules"];

/// Paths from the root, with `/`, and texts. As in git, a folder exists only if it contains files.
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads everything under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        read_folder(root, "", &mut files)?;
        Ok(Self(files))
    }

    /// The text of a file; empty for a kind that is not read.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether there is a file or folder of that path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.0.contains_key(path) || self.under(path).next().is_some()
    }

    /// The files below one of `folders` (all files for the empty path) whose names end in `ending`.
    pub(crate) fn files(
        &self,
        folders: &[&str],
        ending: &str,
    ) -> impl Iterator<Item = (&str, &str)> {
        folders
            .iter()
            .flat_map(|folder| self.under(folder))
            .filter(move |(path, _)| path.ends_with(ending))
    }

    /// The names of the folders directly in `folder`.
    pub(crate) fn folders_in(&self, folder: &str) -> BTreeSet<&str> {
        let paths = self.under(folder).filter_map(|(path, _)| path.get(folder.len() + 1..));
        paths.filter_map(|rest| Some(rest.split_once('/')?.0)).collect()
    }

    fn under(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.0
            .range(prefix.clone()..)
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if !entry.file_type()?.is_dir() {
            files.insert(path, read_text(&entry.path())?);
        } else if !SKIPPED.contains(&name.as_str()) {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        }
    }
    Ok(())
}

fn read_text(path: &Path) -> Result<String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(kind) if READ.contains(&kind) => {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        }
        _ => Ok(String::new()),
    }
}

#[cfg(test)]
impl Tree {
    /// A made-up repository.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_by_their_files() {
        let tree = Tree::of(&[("docs/guide/start.md", ""), ("docs-old/x.md", "")]);
        for path in ["", "docs", "docs/guide", "docs/guide/start.md"] {
            assert!(tree.exists(path), "{path}");
        }
        for path in ["doc", "docs/x.md", "docs/guide/start"] {
            assert!(!tree.exists(path), "{path}");
        }
    }

    #[test]
    fn files_are_those_of_the_folder_and_ending() {
        let tree = Tree::of(&[("a/x.rs", ""), ("a/b/y.rs", ""), ("a/z.md", ""), ("ab/x.rs", "")]);
        let paths: Vec<_> = tree.files(&["a"], ".rs").map(|(path, _)| path).collect();
        assert_eq!(paths, ["a/b/y.rs", "a/x.rs"]);
        assert_eq!(tree.files(&[""], ".rs").count(), 3);
    }

    #[test]
    fn only_direct_folders_are_listed() {
        let tree = Tree::of(&[("t/a/src/x.rs", ""), ("t/b/y.rs", ""), ("t/README.md", "")]);
        assert_eq!(tree.folders_in("t"), BTreeSet::from(["a", "b"]));
    }

    #[test]
    fn this_crate_is_read_and_its_build_output_is_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").unwrap().contains("fn read_folder"));
        assert!(!tree.exists("target") && !tree.exists(".git"));
    }
}

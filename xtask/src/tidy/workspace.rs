//! The members of the workspace and how they depend on each other, as cargo reports them.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{cargo, output};

/// The crates of this repository.
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
}

/// A crate of this repository; `folder` is its path from the root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency on another crate of this repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) folder: String,
    pub(crate) kind: Kind,
}

/// Whether users of a crate get the dependency too. Dependencies of build scripts count too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
}

impl Workspace {
    /// Reads the workspace from `cargo metadata`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut command = cargo(root);
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        Self::parse(&output(&mut command)?)
    }

    fn parse(metadata: &str) -> Result<Self> {
        let metadata: Value =
            serde_json::from_str(metadata).context("cargo metadata is not JSON")?;
        let root = Path::new(text(&metadata, "workspace_root")?);
        let members = list(&metadata, "packages")?.iter().map(|package| member(package, root));
        Ok(Self { members: members.collect::<Result<_>>()? })
    }
}

impl Member {
    /// The path of the manifest from the root.
    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

fn member(package: &Value, root: &Path) -> Result<Member> {
    let manifest = Path::new(text(package, "manifest_path")?);
    // Dependencies from a registry have no path.
    let ours = list(package, "dependencies")?.iter().filter(|entry| entry["path"].is_string());
    Ok(Member {
        name: text(package, "name")?.to_owned(),
        folder: below(root, manifest.parent().context("a manifest lies in no folder")?)?,
        dependencies: ours.map(|entry| dependency(entry, root)).collect::<Result<_>>()?,
    })
}

fn dependency(entry: &Value, root: &Path) -> Result<Dependency> {
    Ok(Dependency {
        name: text(entry, "name")?.to_owned(),
        folder: below(root, Path::new(text(entry, "path")?))?,
        kind: if entry["kind"] == "dev" { Kind::Dev } else { Kind::Normal },
    })
}

fn below(root: &Path, folder: &Path) -> Result<String> {
    let relative = folder
        .strip_prefix(root)
        .with_context(|| format!("{} lies outside of the repository", folder.display()))?;
    Ok(relative.to_string_lossy().into_owned())
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("cargo metadata has no text `{field}`"))
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("cargo metadata has no list `{field}`"))
}

#[cfg(test)]
impl Member {
    /// A fictional crate. A dependency is written `name folder`, followed by ` dev` for a
    /// dev-dependency.
    pub(crate) fn new(name: &str, folder: &str, dependencies: &[&str]) -> Self {
        let dependencies = dependencies.iter().map(|line| Dependency::of(line)).collect();
        Self { name: name.to_owned(), folder: folder.to_owned(), dependencies }
    }
}

#[cfg(test)]
impl Dependency {
    fn of(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let kind = if words.get(2).is_some() { Kind::Dev } else { Kind::Normal };
        Self { name: words[0].clone(), folder: words[1].clone(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dependencies_of_this_repository_are_kept() {
        let metadata = r#"{"workspace_root": "/r", "packages": [{
            "name": "bezoar-paper", "manifest_path": "/r/transports/paper/Cargo.toml",
            "dependencies": [
                {"name": "bezoar-core", "kind": null, "path": "/r/crates/core"},
                {"name": "bezoar-conformance", "kind": "dev", "path": "/r/crates/conformance"},
                {"name": "bezoar-ink", "kind": "build", "path": "/r/crates/ink"},
                {"name": "tokio", "kind": null}
            ]}]}"#;
        let dependencies = [
            "bezoar-core crates/core",
            "bezoar-conformance crates/conformance dev",
            "bezoar-ink crates/ink",
        ];
        let expected = Member::new("bezoar-paper", "transports/paper", &dependencies);
        assert_eq!(Workspace::parse(metadata).unwrap().members, [expected]);
    }

    #[test]
    fn metadata_of_another_shape_is_an_error() {
        let error = Workspace::parse(r#"{"workspace_root": "/r"}"#).err().unwrap();
        assert_eq!(error.to_string(), "cargo metadata has no list `packages`");
    }
}

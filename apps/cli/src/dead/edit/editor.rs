//! A body in somebody's editor.

use std::{
    env,
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Error, Result, bail, ensure};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::super::reveal::{self, Revealed, is_text};
use crate::client::ApiClient;

/// What somebody saved, in a folder that only they can open; it goes with this.
pub(super) struct EditedBody {
    folder: TempDir,
    path: PathBuf,
    body: Vec<u8>,
}

impl EditedBody {
    /// Reveals a body and has it edited; `None` if it stays as it is.
    pub(super) async fn open(client: &ApiClient, id: i64, reason: &str) -> Result<Option<Self>> {
        let editor = editor()?;
        let reply = reveal::ask(client, id, reason, &["body"]).await?;
        let revealed = Revealed::read(&reply)?;
        let body = revealed.body()?;
        ensure!(is_text(&body), "the body is no text; use `bezoar dead reveal` and --body-file");
        // Editors leave copies beside a file: all of them are in a folder of its own, and go with it.
        let ours_only = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("bezoar-").permissions(ours_only).tempdir();
        let folder = folder.context("cannot make a folder for the editor")?;
        let path = folder.path().join(name(id, revealed.content_type()));
        write(&path, &body).context("cannot write a file for the editor")?;
        edit(&editor, &path)?;
        let saved = fs::read(&path).context("cannot read what was saved")?;
        let saved = without_added_end(&body, saved);
        Ok((saved != body).then_some(Self { folder, path, body: saved }))
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Leaves the file where it is, because it was not accepted and somebody's work is in it.
    pub(super) fn keep(self, error: Error) -> Error {
        let _ = self.folder.keep();
        error.context(format!(
            "not accepted; what you saved is in {}, send it with --body-file or remove it",
            self.path.display()
        ))
    }
}

fn editor() -> Result<String> {
    let set = |name| env::var(name).ok().filter(|text| !text.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).context("set EDITOR to your editor, or use --body-file")
}

/// A name by which an editor knows what it is.
fn name(id: i64, content_type: Option<&str>) -> String {
    let content_type = content_type.unwrap_or_default();
    let ending = match content_type.split(';').next().unwrap_or_default().trim() {
        it if it == "application/json" || it.ends_with("+json") => "json",
        it if it.ends_with("/xml") || it.ends_with("+xml") => "xml",
        _ => "txt",
    };
    format!("dead-letter-{id}.{ending}")
}

fn write(path: &Path, body: &[u8]) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(body)
}

/// The editor may be several words, as a shell reads them.
fn edit(editor: &str, path: &Path) -> Result<()> {
    // What is typed in the editor is the editor's, Ctrl-C too.
    let _ours = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "bezoar"])
        .arg(path)
        .status()
        .with_context(|| format!("cannot start the editor {editor}"))?;
    if !status.success() {
        bail!("the editor {editor} failed, so nothing was sent");
    }
    Ok(())
}

/// Editors end the last line. If it had no end before, that is no change which somebody made.
fn without_added_end(before: &[u8], mut saved: Vec<u8>) -> Vec<u8> {
    if !before.ends_with(b"\n") && saved.ends_with(b"\n") {
        saved.pop();
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_last_line_is_no_change() {
        for (before, saved, expected) in
            [("a", "a\n", "a"), ("a\n", "a\n", "a\n"), ("a", "b\n", "b"), ("a", "b\n\n", "b\n")]
        {
            let kept = without_added_end(before.as_bytes(), saved.into());
            assert_eq!(kept, expected.as_bytes(), "{before:?} {saved:?}");
        }
    }

    #[test]
    fn a_file_is_named_by_what_is_in_it() {
        assert_eq!(name(7, Some("application/json; charset=utf-8")), "dead-letter-7.json");
        assert_eq!(name(7, Some("application/hl7+xml")), "dead-letter-7.xml");
        assert_eq!(name(7, None), "dead-letter-7.txt");
    }
}

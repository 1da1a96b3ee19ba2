//! Edits a body in the user's editor.

use std::{
    env,
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Error, Result, bail, ensure};
use bezoar::DeadLetterId;
use bezoar_gateway::api_types::RevealPart;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::super::reveal::{self, Revealed, is_text};
use crate::client::ApiClient;

/// The saved body, in a private folder that is removed on drop.
pub(super) struct EditedBody {
    folder: TempDir,
    path: PathBuf,
    body: Vec<u8>,
}

impl EditedBody {
    /// Reveals a body and opens it in the editor; `None` if it was not changed.
    pub(super) async fn open(
        client: &ApiClient,
        id: DeadLetterId,
        reason: &str,
    ) -> Result<Option<Self>> {
        let editor = editor()?;
        let reply = reveal::ask(client, id, reason, vec![RevealPart::Body]).await?;
        let revealed = Revealed::read(&reply)?;
        let body = revealed.body()?;
        ensure!(
            is_text(&body),
            "the body is not text; use `bezoar dead reveal --output` and --body-file"
        );
        // Editors leave copies beside a file, so it gets a folder of its own, which is removed as a whole.
        let ours_only = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("bezoar-").permissions(ours_only).tempdir();
        let folder = folder.context("cannot create a folder for the editor")?;
        let path = folder.path().join(name(id, revealed.content_type()));
        write(&path, &body).context("cannot write a file for the editor")?;
        edit(&editor, &path)?;
        let saved = fs::read(&path).context("cannot read the saved file")?;
        let saved = without_added_end(&body, saved);
        Ok((saved != body).then_some(Self { folder, path, body: saved }))
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Keeps the file after an error, because it contains the user's work.
    pub(super) fn keep(self, error: Error) -> Error {
        let _ = self.folder.keep();
        error.context(format!(
            "the edit was not accepted; your version is in {}, send it with --body-file or delete it",
            self.path.display()
        ))
    }
}

fn editor() -> Result<String> {
    let set = |name| env::var(name).ok().filter(|text| !text.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).context("set EDITOR to your editor, or use --body-file")
}

/// A file name from which an editor recognizes the format.
fn name(id: DeadLetterId, content_type: Option<&str>) -> String {
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

/// The editor may be a command with arguments, as in a shell.
fn edit(editor: &str, path: &Path) -> Result<()> {
    // Ctrl-C belongs to the editor while it runs.
    let _ours = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let status = Command::new("/bin/sh")
        .args(["-c", &format!("{editor} \"$1\""), "bezoar"])
        .arg(path)
        .status()
        .with_context(|| format!("cannot start the editor {editor}"))?;
    if !status.success() {
        bail!("the editor {editor} failed; nothing was sent");
    }
    Ok(())
}

/// Editors terminate the last line. Without a terminator before, this is not a change of the user.
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
    fn a_line_end_added_by_the_editor_is_not_a_change() {
        for (before, saved, expected) in
            [("a", "a\n", "a"), ("a\n", "a\n", "a\n"), ("a", "b\n", "b"), ("a", "b\n\n", "b\n")]
        {
            let kept = without_added_end(before.as_bytes(), saved.into());
            assert_eq!(kept, expected.as_bytes(), "{before:?} {saved:?}");
        }
    }

    #[test]
    fn a_file_is_named_after_its_content_type() {
        let id = DeadLetterId::from_number(7);
        assert_eq!(
            name(id, Some("application/json; charset=utf-8")),
            "dead-letter-dl_75mk4vdk.json"
        );
        assert_eq!(name(id, Some("application/hl7+xml")), "dead-letter-dl_75mk4vdk.xml");
        assert_eq!(name(id, None), "dead-letter-dl_75mk4vdk.txt");
    }
}

//! The generated token of a gateway that was started in this folder without configured tokens.

use std::{
    fmt,
    fs::File,
    io::{ErrorKind, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use secrecy::SecretString;

use crate::output;

/// Where a token came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// There is none, neither given nor in this file.
    Nowhere {
        missing: Option<PathBuf>,
    },
    Environment,
    Flag,
    /// The data folder of a gateway.
    File(PathBuf),
}

impl fmt::Display for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere { .. } => f.write_str("nowhere"),
            Self::Environment => f.write_str("BEZOAR_TOKEN"),
            Self::Flag => f.write_str("--token"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

const FILE: &str = "token";
const LIMIT_BYTES: u64 = 4096;

/// The file of the token in a gateway's data folder.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Reads the token from a gateway's data folder; `None` if there is none.
pub(crate) fn find(folder: &Path) -> Result<Option<SecretString>> {
    let path = file(folder);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| unreadable(&path)),
    };
    let others_may_read = file.metadata().is_ok_and(|it| it.permissions().mode() & 0o077 != 0);
    let mut text = String::new();
    file.take(LIMIT_BYTES).read_to_string(&mut text).with_context(|| unreadable(&path))?;
    if others_may_read {
        let path = path.display();
        output::say(&format!("warning: {path} is readable by other users; run: chmod 600 {path}"));
    }
    let token = text.trim();
    Ok((!token.is_empty()).then(|| token.into()))
}

fn unreadable(path: &Path) -> String {
    let path = path.display();
    format!("cannot read {path}; run as the user who runs the gateway, or set BEZOAR_TOKEN")
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_token_is_found_in_the_gateways_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(folder.path()).unwrap().is_none());
        let path = folder.path().join(FILE);
        std::fs::write(&path, "bzr_1\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(find(folder.path()).unwrap().unwrap().expose_secret(), "bzr_1");
    }

    #[test]
    fn an_unreadable_token_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(FILE)).unwrap();
        let error = find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("BEZOAR_TOKEN"), "{error}");
    }
}

//! The generated token of a gateway without configured tokens.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    path::Path,
};

use secrecy::SecretString;

use crate::atomic_file;

/// The name of the file, beside the database.
pub const FILE: &str = "token";

/// Reads the token from its file, or generates one that only its owner can read; `true` if it is new.
///
/// The file appears complete or not at all. An empty one, as a crash of an older version could leave it, is replaced.
///
/// # Errors
///
/// If the file can be neither read nor created.
pub fn read_or_generate(folder: &Path) -> io::Result<(SecretString, bool)> {
    match read(&folder.join(FILE)) {
        Ok(token) => Ok((token.into(), false)),
        Err(error) if is_missing(&error) => {
            let token = generate();
            atomic_file::replace(&folder.join(FILE), token.as_bytes())?;
            Ok((token.into(), true))
        }
        Err(error) => Err(error),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// Reads a token that was generated before.
///
/// # Errors
///
/// If there is none, or it cannot be read.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    OpenOptions::new().read(true).open(path)?.take(4096).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() {
        let text = format!(
            "{} is empty; restart the gateway, which generates a new token",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    Ok(token.to_owned())
}

/// 256 random bits, in letters and digits that need no quoting in a shell.
fn generate() -> String {
    use rand::Rng;
    let mut bytes = [0_u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("bzr_{hex}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_token_is_generated_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let (first, new) = read_or_generate(folder.path()).unwrap();
        assert!(new);
        let mode = folder.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (second, new) = read_or_generate(folder.path()).unwrap();
        assert!(!new);
        assert_eq!(first.expose_secret(), second.expose_secret());
    }

    #[test]
    fn an_empty_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), " \n").unwrap();
        assert!(read(&folder.path().join(FILE)).unwrap_err().to_string().contains("is empty"));
        let (token, new) = read_or_generate(folder.path()).unwrap();
        assert!(new && token.expose_secret().starts_with("bzr_"));
        assert_eq!(read(&folder.path().join(FILE)).unwrap(), token.expose_secret());
    }
}

//! The generated token of a gateway without configured tokens.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use secrecy::SecretString;

/// The name of the file, beside the database.
pub const FILE: &str = "token";

/// Reads the token from its file, or generates one that only its owner can read; `true` if it is new.
///
/// # Errors
///
/// If the file can be neither read nor created.
pub fn read_or_generate(folder: &Path) -> io::Result<(SecretString, bool)> {
    let path = folder.join(FILE);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            let token = generate();
            file.write_all(token.as_bytes())?;
            file.sync_all()?;
            Ok((token.into(), true))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((read(&path)?.into(), false))
        }
        Err(error) => Err(error),
    }
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
            "{} is empty; delete it, and the next start generates a new token",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
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
    fn an_empty_file_is_an_error_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), " \n").unwrap();
        let error = read_or_generate(folder.path()).unwrap_err();
        assert!(error.to_string().contains("delete it"), "{error}");
    }
}

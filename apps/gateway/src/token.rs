//! The token of a gateway for which none is configured.

use std::{
    fs::OpenOptions,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use secrecy::SecretString;

/// What the file is called, beside the database.
pub const FILE: &str = "token";

/// Reads the token from its file, or makes one that only its owner can read. `true` if it is new.
///
/// # Errors
///
/// If the file can be neither read nor made.
pub fn read_or_make(folder: &Path) -> io::Result<(SecretString, bool)> {
    let path = folder.join(FILE);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => {
            let token = make();
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

/// Reads a token that was made before.
///
/// # Errors
///
/// If there is none, or it cannot be read.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    OpenOptions::new().read(true).open(path)?.take(4096).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() {
        let text =
            format!("{} is empty; remove it, and the next start makes a new one", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(token.to_owned())
}

/// 256 bits of chance, in letters and digits that survive any shell.
fn make() -> String {
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
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let (first, new) = read_or_make(folder.path()).unwrap();
        assert!(new);
        let mode = folder.path().join(FILE).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (second, new) = read_or_make(folder.path()).unwrap();
        assert!(!new);
        assert_eq!(first.expose_secret(), second.expose_secret());
    }

    #[test]
    fn an_empty_file_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), " \n").unwrap();
        let error = read_or_make(folder.path()).unwrap_err();
        assert!(error.to_string().contains("remove it"), "{error}");
    }
}

//! Secrets, which cannot be printed, and references to them.

use std::{env, fmt, fs, io::Read, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::InvalidValue;

/// The largest secret.
pub(super) const SECRET_LIMIT_BYTES: usize = 8 * 1024;

/// The largest file of certificates.
const PEM_LIMIT_BYTES: usize = 256 * 1024;

/// A reference to a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In this environment variable.
    Environment(String),
    /// In this file.
    File(PathBuf),
}

/// Looks up a secret; the error says why there is none, worded to follow the reference.
pub type Resolve<'a> = dyn Fn(&SecretSource) -> Result<String, String> + 'a;

impl SecretSource {
    /// Parses `env:NAME` or `file:PATH`; `None` for anything else, which is a literal secret.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, InvalidValue> {
        if let Some(name) = text.strip_prefix("env:") {
            return variable(name).map(Some);
        }
        match text.strip_prefix("file:") {
            Some("") => Err(InvalidValue::new("has no path after file:", "use file:PATH")),
            Some(path) => Ok(Some(Self::File(path.into()))),
            None => Ok(None),
        }
    }
}

/// Text that does not look like a variable name is not quoted: it may be the secret.
fn variable(name: &str) -> Result<SecretSource, InvalidValue> {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || digit || name.starts_with("whsec_") || !name.chars().all(usual) {
        let problem = "has an invalid variable name after env:";
        return Err(InvalidValue::new(
            problem,
            "use env:NAME and put the secret into that variable",
        ));
    }
    Ok(SecretSource::Environment(name.to_owned()))
}

/// `env:NAME` or `file:PATH`.
impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// Looks up a secret in the environment or in a file; a trailing line break is removed.
///
/// # Errors
///
/// Why there is none, worded to follow the reference.
pub fn read_secret(source: &SecretSource) -> Result<String, String> {
    match source {
        SecretSource::Environment(name) => env::var(name).map_err(|error| match error {
            env::VarError::NotPresent => "is not set".to_owned(),
            env::VarError::NotUnicode(_) => "is not Unicode".to_owned(),
        }),
        SecretSource::File(path) => {
            let mut text = String::new();
            let limit = PEM_LIMIT_BYTES as u64 + 2;
            let file =
                fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
            let read = file.take(limit).read_to_string(&mut text);
            read.map_err(|error| format!("cannot be read: {error}"))?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
    }
}

/// A secret, which cannot be printed.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Accepts 1 to 8,192 bytes without control characters.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`] for anything else, without quoting it.
    pub fn new(text: String) -> Result<Self, InvalidValue> {
        let secret = SecretString::from(text);
        let text = secret.expose_secret();
        let remedy = "use a single line of text";
        if text.is_empty() {
            return Err(InvalidValue::new("is empty", remedy));
        }
        if text.len() > SECRET_LIMIT_BYTES {
            let problem = format!("is longer than {SECRET_LIMIT_BYTES} bytes");
            return Err(InvalidValue::new(problem, remedy));
        }
        if text.contains(char::is_control) {
            return Err(InvalidValue::new("contains a line break or control character", remedy));
        }
        Ok(Self(secret))
    }

    /// Accepts certificates or a key in PEM, up to 256 KiB.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`] for anything else, without quoting it.
    pub fn pem(text: String) -> Result<Self, InvalidValue> {
        let secret = SecretString::from(text);
        let text = secret.expose_secret();
        if text.len() > PEM_LIMIT_BYTES || !text.contains("-----BEGIN ") {
            let problem = format!("is not PEM of at most {PEM_LIMIT_BYTES} bytes");
            return Err(InvalidValue::new(problem, "use a file that begins with -----BEGIN"));
        }
        Ok(Self(secret))
    }

    /// The secret text. The caller is responsible for where it goes.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<Secret> for SecretString {
    fn from(secret: Secret) -> Self {
        secret.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.reveal() == other.reveal()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_distinguished_from_literal_secrets() {
        for (text, expected) in [
            ("env:TOKEN", Ok(Some("env:TOKEN"))),
            ("file:/run/secrets/token", Ok(Some("file:/run/secrets/token"))),
            ("environment", Ok(None)),
            ("file:", Err(())),
            ("env:", Err(())),
            ("env:whsec_CANARY", Err(())),
            ("env:CANARY+/=", Err(())),
            ("env:1CANARY", Err(())),
        ] {
            let source = SecretSource::parse(text);
            if let Err(invalid) = &source {
                assert!(!invalid.to_string().contains("CANARY"), "{invalid}");
            }
            let shown =
                source.map(|source| source.map(|source| source.to_string())).map_err(|_| ());
            assert_eq!(shown, expected.map(|source| source.map(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn secrets_are_one_line_and_cannot_be_printed() {
        let secret = Secret::new("CANARY".to_owned()).unwrap();
        assert_eq!(format!("{secret:?}"), "***");
        for bad in ["", "a\nCANARY", &"CANARY".repeat(2_000)] {
            let invalid = Secret::new(bad.to_owned()).unwrap_err();
            assert!(!invalid.to_string().contains("CANARY"), "{invalid}");
        }
    }

    #[test]
    fn secrets_are_read_from_files_without_their_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "s3cret\r\n").unwrap();
        assert_eq!(read_secret(&SecretSource::File(path.clone())), Ok("s3cret".to_owned()));
        let gone = SecretSource::File(path.with_extension("gone"));
        assert!(read_secret(&gone).unwrap_err().starts_with("cannot be opened"));
        let unset = SecretSource::Environment("BEZOAR_TEST_NOT_SET".to_owned());
        assert_eq!(read_secret(&unset).unwrap_err(), "is not set");
    }
}

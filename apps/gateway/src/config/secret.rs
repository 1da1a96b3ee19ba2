//! Secrets: where they are, and what they are, which cannot be printed.

use std::{env, fmt, fs, io::Read, path::PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::InvalidValue;

/// The largest secret.
pub(super) const SECRET_LIMIT_BYTES: usize = 8 * 1024;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// In this environment variable.
    Environment(String),
    /// In this file.
    File(PathBuf),
}

/// How secrets are looked up: the secret, or why there is none, fit to follow what was looked for.
pub type Resolve<'a> = dyn Fn(&SecretSource) -> Result<String, String> + 'a;

impl SecretSource {
    /// Reads `env:NAME` or `file:PATH`; `None` for anything else, which is the secret itself.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, InvalidValue> {
        if let Some(name) = text.strip_prefix("env:") {
            return variable(name).map(Some);
        }
        match text.strip_prefix("file:") {
            Some("") => Err(InvalidValue::new("names no file", "write file:PATH")),
            Some(path) => Ok(Some(Self::File(path.into()))),
            None => Ok(None),
        }
    }
}

/// What does not look like a variable's name is not repeated: it may be the secret.
fn variable(name: &str) -> Result<SecretSource, InvalidValue> {
    let usual = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    if name.is_empty() || digit || name.starts_with("whsec_") || !name.chars().all(usual) {
        let problem = "has something after env: that is no name of a variable";
        return Err(InvalidValue::new(problem, "write env:NAME, and the secret into the variable"));
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

/// Looks up a secret in the environment and files of this process. A file's last line break is left out.
///
/// # Errors
///
/// Why there is none, fit to follow what was looked for.
pub fn read_secret(source: &SecretSource) -> Result<String, String> {
    match source {
        SecretSource::Environment(name) => env::var(name).map_err(|error| match error {
            env::VarError::NotPresent => "is not set".to_owned(),
            env::VarError::NotUnicode(_) => "is not Unicode".to_owned(),
        }),
        SecretSource::File(path) => {
            let mut text = String::new();
            let limit = SECRET_LIMIT_BYTES as u64 + 2;
            let file =
                fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
            let read = file.take(limit).read_to_string(&mut text);
            read.map_err(|error| format!("cannot be read: {error}"))?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
    }
}

/// A secret. It cannot be printed; two are equal if their texts are.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a text of 1 to 8,192 bytes without control characters.
    ///
    /// # Errors
    ///
    /// [`InvalidValue`] for any other, which is not repeated.
    pub fn new(text: String) -> Result<Self, InvalidValue> {
        let secret = SecretString::from(text);
        let text = secret.expose_secret();
        let remedy = "set a text of one line";
        if text.is_empty() {
            return Err(InvalidValue::new("is empty", remedy));
        }
        if text.len() > SECRET_LIMIT_BYTES {
            let problem = format!("is longer than {SECRET_LIMIT_BYTES} bytes");
            return Err(InvalidValue::new(problem, remedy));
        }
        if text.contains(char::is_control) {
            return Err(InvalidValue::new("has a line break or control character in it", remedy));
        }
        Ok(Self(secret))
    }

    /// The text. Whoever calls this answers for where it goes.
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
    fn sources_are_told_from_secrets() {
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

//! TLS: trusted certificate authorities, and a client certificate.

use std::{fmt, fs, path::PathBuf};

use bezoar_core::Invalid;
use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use secrecy::{ExposeSecret, SecretString};

use crate::Options;

/// A certificate or a key in PEM format. A file is read for each connection, so that a renewed one is used.
#[derive(Clone)]
#[non_exhaustive]
pub enum Pem {
    /// The PEM text. Hidden, because it may be a key.
    Text(SecretString),
    /// The path of a PEM file.
    File(PathBuf),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Pem([hidden])"),
            Self::File(path) => write!(f, "Pem({})", path.display()),
        }
    }
}

/// A text that contains `-----BEGIN` is PEM, anything else is a path.
impl From<&str> for Pem {
    fn from(text: &str) -> Self {
        match text.contains("-----BEGIN") {
            true => Self::Text(text.into()),
            false => Self::File(text.into()),
        }
    }
}

impl Pem {
    /// The PEM text. `field` is the option that an error names.
    pub(crate) fn read(&self, field: &'static str) -> Result<String, Invalid> {
        let text = match self {
            Self::Text(text) => text.expose_secret().to_owned(),
            Self::File(path) => fs::read_to_string(path).map_err(|failed| {
                let problem = format!("cannot be read from {} ({failed})", path.display());
                Invalid::new(field, problem)
            })?,
        };
        match text.contains("-----BEGIN") {
            true => Ok(text),
            false => Err(Invalid::new(field, "is not in PEM format")),
        }
    }
}

/// The TLS configuration for lapin; files are read each time.
pub(crate) fn configuration(options: &Options) -> Result<OwnedTLSConfig, Invalid> {
    let read = |pem: &Option<Pem>, field| pem.as_ref().map(|pem| pem.read(field)).transpose();
    let certificate = read(&options.tls_certificate, "tls_certificate")?;
    let identity = match (certificate, read(&options.tls_key, "tls_key")?) {
        (Some(pem), Some(key)) => Some(OwnedIdentity::PKCS8 { pem: pem.into(), key: key.into() }),
        (None, None) => None,
        (Some(_), None) => return Err(Invalid::new("tls_key", "is missing for tls_certificate")),
        (None, Some(_)) => return Err(Invalid::new("tls_certificate", "is missing for tls_key")),
    };
    Ok(OwnedTLSConfig { identity, cert_chain: read(&options.tls_ca, "tls_ca")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_option_is_refused_by_name_and_a_key_is_never_shown() {
        let key = || Some(Pem::from("-----BEGIN CANARY"));
        let base = || Options::from_url("amqps://localhost").unwrap();
        assert!(configuration(&base()).is_ok());
        for (options, field) in [
            (Options { tls_key: key(), ..base() }, "tls_certificate"),
            (Options { tls_certificate: key(), ..base() }, "tls_key"),
            (Options { tls_ca: Some("/there/is/no.pem".into()), ..base() }, "/there/is/no.pem"),
            (Options { tls_ca: Some(Pem::Text("CANARY".into())), ..base() }, "PEM"),
        ] {
            let refused = configuration(&options).unwrap_err().to_string();
            assert!(refused.contains(field) && !refused.contains("CANARY"), "{refused}");
            assert!(!format!("{options:?}").contains("CANARY"));
        }
    }
}

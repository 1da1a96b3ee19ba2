//! The changes of a new version.

use std::{collections::BTreeMap, convert::Infallible, fs::File, io, io::Read, path::Path};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bezoar_gateway::api_types::EditRequest;
use clap::error::ErrorKind;
use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;

use super::ChangeArguments;

/// The largest body of an edit: 24 MiB in base64, with room for the rest of the request.
const LIMIT_BYTES: u64 = 17 * 1024 * 1024;

/// The changes. They contain sensitive values and therefore have no `Debug`.
#[derive(Default)]
pub(super) struct BodyChange {
    body: Option<Vec<u8>>,
    patch: Option<Box<RawValue>>,
    headers: BTreeMap<String, Option<String>>,
}

impl BodyChange {
    /// Reads the changes from the arguments; `None` if there are none.
    pub(super) fn read(arguments: &ChangeArguments) -> Result<Option<Self>> {
        let body = arguments.body_file.as_deref().map(read).transpose()?;
        let patch = arguments.patch.as_deref().map(read).transpose()?;
        // serde's message may quote the file.
        let patch = patch.map(|text| serde_json::from_slice(&text).ok().context(NO_PATCH));
        let given = arguments.headers.iter().map(|text| header(text.expose_secret()));
        let removed = arguments.removed.iter().map(|name| (name.clone(), None));
        let headers: BTreeMap<_, _> = given.chain(removed).collect();
        let change = Self { body, patch: patch.transpose()?, headers };
        Ok((!change.is_empty()).then_some(change))
    }

    /// A change of the body only.
    pub(super) fn of_body(body: &[u8]) -> Self {
        Self { body: Some(body.to_owned()), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.body.is_none() && self.patch.is_none() && self.headers.is_empty()
    }

    pub(super) fn request(&self, reason: &str) -> EditRequest {
        let header = |(name, value): (&String, &Option<String>)| {
            (name.clone(), value.clone().map(Into::into))
        };
        EditRequest {
            reason: reason.to_owned(),
            body_base64: self.body.as_ref().map(|body| STANDARD.encode(body).into()),
            patch: self.patch.clone().map(Into::into),
            headers: self.headers.iter().map(header).collect(),
        }
    }
}

const NO_PATCH: &str =
    "--patch is not JSON; expected a list such as [{\"op\": \"remove\", \"path\": \"/a\"}]";

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = || format!("cannot read {}", path.display());
    let reader: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).with_context(failed)?),
    };
    let mut bytes = Vec::new();
    reader.take(LIMIT_BYTES + 1).read_to_end(&mut bytes).with_context(failed)?;
    let is_fitting = bytes.len() as u64 <= LIMIT_BYTES;
    ensure!(is_fitting, "{} is larger than {LIMIT_BYTES} bytes", path.display());
    Ok(bytes)
}

/// An argument that clap neither prints nor quotes in errors.
pub(super) fn sensitive(text: &str) -> Result<SecretString, Infallible> {
    Ok(text.into())
}

/// Splits `K=V`; the name is written as `bezoar dead show` prints it.
fn header(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => (name.to_owned(), Some(value.to_owned())),
        _ => misused("--header must have the form K=V"),
    }
}

/// Exits with the usage error code.
pub(super) fn misused(words: &str) -> ! {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{words}\n")).exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_become_a_request() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "new").unwrap();
        let change = BodyChange::read(&ChangeArguments {
            body_file: Some(file.path().into()),
            patch: None,
            headers: vec!["Source=a=b".into()],
            removed: vec!["X-Old".to_owned()],
        });
        let expected = serde_json::json!({
            "reason": "typo", "body_base64": "bmV3", "headers": { "Source": "a=b", "X-Old": null },
        });
        let request = change.unwrap().unwrap().request("typo");
        assert_eq!(serde_json::to_value(request).unwrap(), expected);
        assert!(BodyChange::read(&ChangeArguments::default()).unwrap().is_none());
    }
}

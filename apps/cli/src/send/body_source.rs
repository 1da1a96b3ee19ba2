//! Where bodies come from.

use std::{
    fs::File,
    io::{self, Cursor, IsTerminal, Read},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use secrecy::{ExposeSecret, SecretString};

/// The largest body that any gateway can be configured to accept.
const LIMIT_BYTES: u64 = 512 * 1024 * 1024;

/// Where bodies come from. It may contain one and therefore has no `Debug`.
pub(super) enum BodySource {
    File(PathBuf),
    /// Given as `-`.
    Stdin,
    /// Not given: stdin is a pipe or file.
    Pipe,
    Text(SecretString),
}

impl BodySource {
    /// Chooses the source; never waits for input on a terminal.
    pub(super) fn choose(
        file: Option<PathBuf>,
        text: Option<SecretString>,
    ) -> Result<Self, &'static str> {
        match (file, text) {
            (_, Some(text)) => Ok(Self::Text(text)),
            (Some(path), None) if path.as_os_str() == "-" => Ok(Self::Stdin),
            (Some(path), None) => Ok(Self::File(path)),
            (None, None) if io::stdin().is_terminal() => {
                Err("nothing to send: pass a file, - for stdin, or --body TEXT")
            }
            (None, None) => Ok(Self::Pipe),
        }
    }

    /// Reads everything.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let (reader, _) = self.open()?;
        let mut body = Vec::new();
        reader.take(LIMIT_BYTES + 1).read_to_end(&mut body).context("cannot read the body")?;
        let is_fitting = body.len() as u64 <= LIMIT_BYTES;
        ensure!(
            is_fitting,
            "the body is larger than {LIMIT_BYTES} bytes, more than any gateway accepts"
        );
        // A job without input must not accidentally send an empty message.
        let is_meant = !body.is_empty() || !matches!(self, Self::Pipe);
        ensure!(is_meant, "stdin is empty; to send an empty message, use --body \"\"");
        Ok(body)
    }

    /// A reader, and the size of the input if it is known.
    pub(super) fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
        match self {
            Self::Stdin | Self::Pipe => Ok((Box::new(io::stdin()), None)),
            Self::Text(text) => {
                let text = text.expose_secret().to_owned();
                let size = text.len() as u64;
                Ok((Box::new(Cursor::new(text)), Some(size)))
            }
            Self::File(path) => {
                let file =
                    File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                let size = file.metadata().ok().filter(|it| it.is_file()).map(|it| it.len());
                Ok((Box::new(file), size))
            }
        }
    }
}

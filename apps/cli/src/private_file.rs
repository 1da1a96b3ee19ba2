//! Files for sensitive content: readable by their owner only, and complete or absent.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use tempfile::NamedTempFile;

/// What to do if the file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Fail.
    Refused,
    /// Replace it atomically.
    Replaced,
}

/// A file with mode 0600 that gets its name when it is complete. If dropped before that, it is removed.
#[derive(Debug)]
pub(crate) struct PrivateFile {
    file: NamedTempFile,
    path: PathBuf,
    existing: Existing,
}

impl PrivateFile {
    /// Creates one. Errors are reported now, before content is fetched that would be lost.
    pub(crate) fn begin(path: &Path, existing: Existing) -> Result<Self> {
        check(path, existing)?;
        let name = path.file_name().context("--output is not a file name")?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::Builder::new()
            .prefix(&format!("{}.", name.to_string_lossy()))
            .suffix(".part")
            .tempfile_in(folder.unwrap_or(Path::new(".")))
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { file, path: path.to_owned(), existing })
    }

    /// Syncs the file and gives it its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        self.file.flush().with_context(failed)?;
        self.file.as_file().sync_all().with_context(failed)?;
        let named = match self.existing {
            Existing::Refused => self.file.persist_noclobber(&self.path),
            Existing::Replaced => self.file.persist(&self.path),
        };
        named.map(drop).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Write for PrivateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn check(path: &Path, existing: Existing) -> Result<()> {
    let shown = path.display();
    match (fs::symlink_metadata(path), existing) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (Err(error), _) => Err(error).with_context(|| format!("cannot create {shown}")),
        // Replacing a device or a link with a file is never intended.
        (Ok(there), _) if !there.is_file() => {
            bail!("{shown} is not a regular file; choose another name")
        }
        (Ok(_), Existing::Refused) => {
            bail!("{shown} exists; choose another name, or overwrite it with --force")
        }
        (Ok(_), Existing::Replaced) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn write(path: &Path, existing: Existing, text: &str) -> Result<()> {
        let mut file = PrivateFile::begin(path, existing)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    }

    #[test]
    fn a_file_is_private_and_replaced_only_with_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        write(&path, Existing::Refused, "one").unwrap();
        let refused = write(&path, Existing::Refused, "two").unwrap_err();
        assert!(refused.to_string().contains("--force"), "{refused}");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        write(&path, Existing::Replaced, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_unfinished_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PrivateFile::begin(&folder.path().join("body"), Existing::Refused).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_is_not_replaced() {
        let refused = PrivateFile::begin(Path::new("/dev/null"), Existing::Replaced).unwrap_err();
        assert!(refused.to_string().contains("not a regular file"), "{refused}");
    }
}

//! Small files that are complete or absent, whatever happens while they are written.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use tempfile::NamedTempFile;

/// Writes a file that only its owner can read, instead of the one that is there. It gets its name once it is on disk.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = NamedTempFile::with_prefix_in(".bezoar-", folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

//! What depends on the operating system: reading at an offset, and the permissions and identity of files.
//!
//! Elsewhere than on Unix a file that is open cannot be deleted or replaced, and folders cannot be synced.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::Path,
};

#[cfg(not(unix))]
use self::portable as system;
#[cfg(unix)]
use self::unix as system;

/// Which file this is, whatever its name.
pub(crate) type FileIdentity = system::FileIdentity;

pub(crate) fn identity(file: &Metadata) -> FileIdentity {
    system::identity(file)
}

pub(crate) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    system::read_exact_at(file, buffer, offset)
}

pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    system::write_all_at(file, bytes, offset)
}

/// Creates a file that only its owner can read. Fails if there is one.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    system::private(OpenOptions::new().write(true).create_new(true)).open(path)
}

/// Makes the names of the files beside `path` durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    system::sync_folder(parent.unwrap_or(Path::new(".")))
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::{File, Metadata, OpenOptions},
        io,
        os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
        path::Path,
    };

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct FileIdentity {
        device: u64,
        inode: u64,
    }

    pub(super) fn identity(file: &Metadata) -> FileIdentity {
        FileIdentity { device: file.dev(), inode: file.ino() }
    }

    pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.read_exact_at(buffer, offset)
    }

    pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

#[cfg(any(not(unix), test))]
mod portable {
    use std::{
        fs::{File, Metadata, OpenOptions},
        io::{self, Read, Seek, SeekFrom, Write},
        path::Path,
    };

    /// Not checked: the file stays the one that was opened.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct FileIdentity;

    pub(super) fn identity(_: &Metadata) -> FileIdentity {
        FileIdentity
    }

    /// Moves the position of `file`, which nobody else uses.
    pub(super) fn read_exact_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buffer)
    }

    pub(super) fn write_all_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options // a new file has the permissions of its folder
    }

    pub(super) fn sync_folder(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn both_implementations_read_and_write_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let private = |options: &mut OpenOptions| portable::private(options).open(&path).unwrap();
        let file = private(OpenOptions::new().read(true).write(true).create_new(true));
        unix::write_all_at(&file, b"0123456789", 0).unwrap();
        portable::write_all_at(&file, b"abc", 4).unwrap();
        for (offset, expected) in [(0, b"0123"), (4, b"abc7"), (6, b"c789")] {
            let (mut ours, mut theirs) = ([0; 4], [0; 4]);
            unix::read_exact_at(&file, &mut ours, offset).unwrap();
            portable::read_exact_at(&file, &mut theirs, offset).unwrap();
            assert_eq!((&ours, &theirs), (expected, expected));
        }
        let end = portable::read_exact_at(&file, &mut [0; 4], 7).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        portable::sync_folder(folder.path()).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!(portable::identity(&found), portable::identity(&found));
    }
}

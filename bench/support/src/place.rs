//! Where the files of a run go: below the target directory, on a real disk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// The directories that a run uses.
#[derive(Debug)]
pub struct Place {
    target: PathBuf,
}

impl Place {
    /// Finds the target directory. Refuses one in memory, where durability would cost nothing.
    pub fn find() -> Result<Place> {
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| repository().join("target"), PathBuf::from);
        fs::create_dir_all(&target)?;
        let target = target.canonicalize()?;
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let filesystem = filesystem_of(&target, &mounts);
        ensure!(
            filesystem != "tmpfs" && filesystem != "ramfs",
            "{} is in memory ({filesystem}): set CARGO_TARGET_DIR to a directory on a disk",
            target.display(),
        );
        Ok(Place { target })
    }

    /// An empty directory for one measurement; it is deleted when dropped.
    pub fn scratch(&self) -> Result<TempDir> {
        let parent = self.target.join("bench");
        fs::create_dir_all(&parent)?;
        TempDir::new_in(&parent).with_context(|| format!("creating one in {}", parent.display()))
    }

    /// Something that is kept between runs, such as what the peers were built into.
    pub fn kept(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// Where the peers' sources are.
    pub fn peers(&self) -> PathBuf {
        repository().join("bench/peers")
    }
}

fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the manifest is two folders below the root")
}

/// The type of the mount that holds `path`: the one whose mount point is its longest prefix.
fn filesystem_of<'a>(path: &Path, mounts: &'a str) -> &'a str {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())
        .map_or("unknown", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystem_is_that_of_the_longest_mount_point() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        for (path, expected) in [("/tmp/x", "tmpfs"), ("/tmpx", "ext4"), ("/work", "ext4")] {
            assert_eq!(filesystem_of(Path::new(path), mounts), expected);
        }
    }
}

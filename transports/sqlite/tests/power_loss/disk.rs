//! A disk that keeps synced changes, and any part of the others.
//!
//! After a power loss every change without a sync is on disk completely, in part or not at all: sectors of
//! 512 bytes are written or not, in any order. Names are changes too, made durable by a sync of their
//! folder and not by a sync of the file. Where POSIX leaves something open, the worst case is assumed.
//! Beyond POSIX there is one assumption, which SQLite makes too: a write does not damage bytes next to
//! those that it writes.

use std::{
    collections::{BTreeMap, HashMap},
    fs::OpenOptions,
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use super::log::{Change, FileNumber, Step, Target};

const SECTOR_BYTES: usize = 512;

/// What a power loss leaves of the folder: which files have a name, and how they differ from what is durable.
pub(crate) type Image<'a> = BTreeMap<&'a str, (FileNumber, Vec<Edit<'a>>)>;

/// The changes without a sync that survived the power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Edit<'a> {
    Put { offset: usize, data: &'a [u8] },
    Length(usize),
}

/// What happened to a change without a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Lost,
    /// Only the file's length was changed.
    Hollow,
    /// Of its sectors, counted from 0, those whose bit is set were written.
    Torn(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Disk<'a> {
    files: HashMap<FileNumber, Vec<u8>>,
    names: HashMap<&'a str, FileNumber>,
    /// The changes with their numbers, in the order of the requests.
    pending: Vec<(u64, Change<'a>)>,
    asked: u64,
    /// Up to which change a running sync covers its target.
    syncing: HashMap<Target, u64>,
    /// The number of syncs: while it is the same, so is the durable content.
    pub(crate) syncs: usize,
}

impl<'a> Disk<'a> {
    pub(crate) fn follow(&mut self, step: Step<'a>) {
        match step {
            Step::Note(_) => (),
            Step::Change(change) => {
                self.asked += 1;
                self.pending.push((self.asked, change));
            }
            Step::SyncStart(target) => {
                self.syncing.insert(target, self.asked);
            }
            Step::SyncDone(target) => {
                self.make_durable(target);
                self.syncs += 1;
            }
            Step::SyncFailed(target) => {
                self.forget(target);
                self.syncs += 1;
            }
        }
    }

    fn make_durable(&mut self, target: Target) {
        let covered = self.syncing.remove(&target).expect("a sync starts before it is done");
        let (files, names) = (&mut self.files, &mut self.names);
        self.pending.retain(|(number, change)| {
            let is_covered = *number <= covered && change.target() == target;
            if is_covered {
                rename(names, change, Fate::Kept);
                rewrite(files, change);
            }
            !is_covered
        });
    }

    /// A sync failed. Programs can still read what was written, but no later sync writes it: some of it is
    /// on disk, and the rest only if it is written again. A file's length is kept.
    fn forget(&mut self, target: Target) {
        let covered = self.syncing.remove(&target).expect("a sync starts before it fails");
        let files = &mut self.files;
        self.pending.retain(|(number, change)| {
            let is_forgotten = *number <= covered
                && change.target() == target
                && matches!(change, Change::Write { .. });
            if is_forgotten && reached_the_disk(*number) {
                rewrite(files, change);
            }
            !is_forgotten
        });
    }

    pub(crate) fn pending(&self) -> impl ExactSizeIterator<Item = &Change<'a>> {
        self.pending.iter().map(|(_, change)| change)
    }

    /// What a power loss leaves if the pending changes, in order, have these fates.
    pub(crate) fn crash(&self, fates: &[Fate]) -> Image<'a> {
        let decided = || self.pending().zip(fates.iter().copied());
        let mut names = self.names.clone();
        decided().for_each(|(change, fate)| rename(&mut names, change, fate));
        let edits = |file| {
            let changes = decided().filter(|(change, _)| change.target() == Target::File(file));
            let mut edits = Edits { length: self.durable(file).len(), list: Vec::new() };
            changes.for_each(|(change, fate)| edits.add(change, fate));
            edits.list
        };
        names.into_iter().map(|(name, file)| (name, (file, edits(file)))).collect()
    }

    fn durable(&self, file: FileNumber) -> &[u8] {
        self.files.get(&file).map(Vec::as_slice).unwrap_or_default()
    }

    /// Writes the files of an image into a folder, and overwrites existing ones.
    pub(crate) fn put(&self, image: &Image<'_>, folder: &Path) -> io::Result<()> {
        for (name, (number, edits)) in image {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).open(folder.join(name))?;
            let durable = self.durable(*number);
            file.write_all_at(durable, 0)?;
            file.set_len(durable.len() as u64)?;
            for edit in edits {
                match edit {
                    Edit::Put { offset, data } => file.write_all_at(data, *offset as u64)?,
                    Edit::Length(length) => file.set_len(*length as u64)?,
                }
            }
        }
        Ok(())
    }
}

/// Whether a write reached the disk although its sync failed: one in four does.
fn reached_the_disk(number: u64) -> bool {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 == 0
}

fn rename<'a>(names: &mut HashMap<&'a str, FileNumber>, change: &Change<'a>, fate: Fate) {
    match change {
        _ if fate == Fate::Lost => (),
        Change::Name { name, file: Some(file) } => drop(names.insert(name, *file)),
        Change::Name { name, file: None } => drop(names.remove(name)),
        Change::Write { .. } | Change::Truncate { .. } => (),
    }
}

fn rewrite(files: &mut HashMap<FileNumber, Vec<u8>>, change: &Change<'_>) {
    match *change {
        Change::Name { .. } => (),
        Change::Truncate { file, length } => files.entry(file).or_default().resize(length, 0),
        Change::Write { file, offset, data } => {
            let (bytes, end) = (files.entry(file).or_default(), offset + data.len());
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(data);
        }
    }
}

/// The edits to a file. An edit that changes nothing is left out, so that equal images compare equal.
struct Edits<'a> {
    length: usize,
    list: Vec<Edit<'a>>,
}

impl<'a> Edits<'a> {
    fn add(&mut self, change: &Change<'a>, fate: Fate) {
        match (*change, fate) {
            (Change::Name { .. }, _) | (_, Fate::Lost) => (),
            (Change::Truncate { length, .. }, _) => self.resize(length),
            (Change::Write { offset, data, .. }, Fate::Kept) => self.write(offset, data),
            (Change::Write { offset, data, .. }, Fate::Hollow) => {
                self.resize(self.length.max(offset + data.len()));
            }
            (Change::Write { offset, data, .. }, Fate::Torn(kept)) => {
                self.tear(offset, data, |sector| kept >> (sector % 64) & 1 == 1);
            }
        }
    }

    fn tear(&mut self, offset: usize, data: &'a [u8], is_kept: impl Fn(usize) -> bool) {
        if (0..sectors(offset, data).count()).all(&is_kept) {
            return self.write(offset, data);
        }
        let kept = sectors(offset, data).enumerate().filter(|(at, _)| is_kept(*at));
        kept.for_each(|(_, (offset, sector))| self.write(offset, sector));
    }

    fn write(&mut self, offset: usize, data: &'a [u8]) {
        self.length = self.length.max(offset + data.len());
        self.list.push(Edit::Put { offset, data });
    }

    fn resize(&mut self, length: usize) {
        if length != self.length {
            self.length = length;
            self.list.push(Edit::Length(length));
        }
    }
}

/// Splits a write at the sector boundaries of the file.
fn sectors(mut offset: usize, mut data: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let room = SECTOR_BYTES - offset % SECTOR_BYTES;
        let sector = data.split_off(..room.min(data.len())).filter(|sector| !sector.is_empty())?;
        offset += sector.len();
        Some((offset - sector.len(), sector))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Change<'_> = Change::Write { file: 0, offset: 500, data: &[7; 1000] };
    const NAME: Change<'_> = Change::Name { name: "a", file: Some(0) };

    fn disk(steps: &[Step<'static>]) -> Disk<'static> {
        let mut disk = Disk::default();
        steps.iter().for_each(|step| disk.follow(*step));
        disk
    }

    #[test]
    fn a_sync_of_a_file_keeps_its_bytes_and_not_its_name() {
        let file = Target::File(0);
        let mut steps = vec![Step::Change(NAME), Step::Change(WRITE)];
        steps.extend([Step::SyncStart(file), Step::SyncDone(file)]);
        assert_eq!(disk(&steps).durable(0).len(), 1500);
        assert!(disk(&steps).crash(&[Fate::Lost]).is_empty());
        steps.extend([Step::SyncStart(Target::Folder), Step::SyncDone(Target::Folder)]);
        assert_eq!(disk(&steps).crash(&[])["a"], (0, Vec::new()));
    }

    #[test]
    fn a_sync_covers_what_came_before_its_start() {
        let file = Target::File(0);
        let steps = [Step::SyncStart(file), Step::Change(WRITE), Step::SyncDone(file)];
        assert_eq!(disk(&steps).pending().len(), 1);
    }

    #[test]
    fn no_later_sync_covers_what_a_failed_one_did() {
        let file = Target::File(0);
        let mut steps = vec![Step::Change(NAME), Step::Change(NAME), Step::Change(WRITE)];
        assert!(!reached_the_disk(3), "the third change is one that did not");
        steps.extend([Step::SyncStart(file), Step::SyncFailed(file)]);
        steps.extend([Step::SyncStart(file), Step::SyncDone(file)]);
        assert_eq!((disk(&steps).durable(0).len(), disk(&steps).pending().len()), (0, 2));
        steps.extend([Step::Change(WRITE), Step::SyncStart(file), Step::SyncDone(file)]);
        assert_eq!(disk(&steps).durable(0).len(), 1500);
    }

    #[test]
    fn a_write_is_torn_at_the_sectors_of_its_file() {
        let disk = disk(&[Step::Change(NAME), Step::Change(WRITE)]);
        let folder = tempfile::tempdir().unwrap();
        let torn = |kept| {
            disk.put(&disk.crash(&[Fate::Kept, Fate::Torn(kept)]), folder.path()).unwrap();
            std::fs::read(folder.path().join("a")).unwrap()
        };
        assert_eq!(torn(0b001), [vec![0; 500], vec![7; 12]].concat());
        assert_eq!(torn(0b100), [vec![0; 1024], vec![7; 476]].concat());
        assert_eq!(torn(0b111), [vec![0; 500], vec![7; 1000]].concat());
    }
}

//! Reads what the shim recorded, as steps of a disk and of the observer's promise log.

use std::collections::HashMap;

/// The observer's promise log. It is in the recorded folder so that its notes are ordered with the writes;
/// power losses do not affect it.
pub(crate) const PROMISE_LOG: &str = "promise_log";

/// Identifies a file over its whole life. A new file with an old name is a different one.
pub(crate) type FileNumber = usize;

/// What can be synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// The bytes and the length of a file.
    File(FileNumber),
    /// The names of the folder.
    Folder,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// The observer wrote down a line.
    Note(&'a str),
    /// The disk was asked to change something.
    Change(Change<'a>),
    /// A sync began: it covers every change of its target so far.
    SyncStart(Target),
    /// A sync succeeded.
    SyncDone(Target),
    /// A sync failed: the kernel forgets that the covered changes are not on disk.
    SyncFailed(Target),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Write {
        file: FileNumber,
        offset: usize,
        data: &'a [u8],
    },
    Truncate {
        file: FileNumber,
        length: usize,
    },
    /// A name now means this file, or nothing.
    Name {
        name: &'a str,
        file: Option<FileNumber>,
    },
}

impl Change<'_> {
    /// The target whose sync makes the change durable.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Write { file, .. } | Self::Truncate { file, .. } => Target::File(*file),
            Self::Name { .. } => Target::Folder,
        }
    }
}

/// Reads the whole log.
pub(crate) fn read(mut log: &[u8]) -> Vec<Step<'_>> {
    let mut reader = Reader::default();
    while let Some(record) = Record::take(&mut log) {
        reader.follow(record);
    }
    assert!(log.is_empty(), "the log ends within a record");
    reader.steps
}

/// The first file with a name.
pub(crate) fn first_of(steps: &[Step<'_>], wanted: &str) -> Target {
    let file = steps.iter().find_map(|step| match step {
        Step::Change(Change::Name { name, file }) if *name == wanted => *file,
        _ => None,
    });
    Target::File(file.expect("a file of that name was created"))
}

/// Leaves out writes to files with this name that did not change their bytes.
pub(crate) fn without_repetitions<'a>(steps: &[Step<'a>], wanted: &str) -> Vec<Step<'a>> {
    let mut contents: HashMap<FileNumber, Vec<u8>> = HashMap::new();
    let mut changes_something = |step: &Step<'_>| match *step {
        Step::Change(Change::Name { name, file: Some(file) }) if name == wanted => {
            contents.insert(file, Vec::new()).is_none()
        }
        Step::Change(Change::Truncate { file, length }) => {
            contents.entry(file).and_modify(|bytes| bytes.resize(length, 0));
            true
        }
        Step::Change(Change::Write { file, offset, data }) => {
            let Some(bytes) = contents.get_mut(&file) else { return true };
            let end = offset + data.len();
            let is_new = bytes.get(offset..end) != Some(data);
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(data);
            is_new
        }
        _ => true,
    };
    steps.iter().filter(|step| changes_something(step)).copied().collect()
}

/// As in shim.c.
struct Record<'a> {
    what: u8,
    descriptor: i32,
    number: usize,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn take(log: &mut &'a [u8]) -> Option<Self> {
        let [what] = *take(log)?;
        let descriptor = i32::from_ne_bytes(*take(log)?);
        let number = u64::from_ne_bytes(*take(log)?).try_into().expect("an offset fits a usize");
        let length = u32::from_ne_bytes(*take(log)?);
        let bytes = log.split_off(..length as usize)?;
        Some(Self { what, descriptor, number, bytes })
    }

    fn text(&self) -> &'a str {
        str::from_utf8(self.bytes).expect("names and notes are text")
    }
}

fn take<'a, const N: usize>(log: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = log.split_first_chunk()?;
    *log = rest;
    Some(taken)
}

/// What an open descriptor refers to.
#[derive(Debug, Clone, Copy)]
enum Opened {
    PromiseLog,
    Target(Target),
    /// The shared memory of the write-ahead log: it is rebuilt when the database is opened.
    Ignored,
}

#[derive(Debug, Default)]
struct Reader<'a> {
    steps: Vec<Step<'a>>,
    open: HashMap<i32, Opened>,
    names: HashMap<&'a str, FileNumber>,
    files: usize,
}

impl<'a> Reader<'a> {
    fn follow(&mut self, record: Record<'a>) {
        match record.what {
            1 => self.opened(&record),
            2 => self.wrote(&record),
            3 => self.truncated(&record),
            4 => self.synced(&record, Step::SyncStart),
            5 => self.synced(&record, Step::SyncDone),
            6 => self.unlinked(&record),
            8 => self.open.clear(), // a new process starts
            9 => self.synced(&record, Step::SyncFailed),
            7 => drop(self.open.remove(&record.descriptor).expect("what is closed was open")),
            what => panic!("the log has a record of unknown kind {what}"),
        }
    }

    fn opened(&mut self, record: &Record<'a>) {
        const CREATED: usize = 1;
        const EMPTIED: usize = 2;
        let name = record.text();
        let opened = match name {
            "" => Opened::Target(Target::Folder),
            PROMISE_LOG => Opened::PromiseLog,
            _ if is_ignored(name) => Opened::Ignored,
            _ if record.number & CREATED != 0 => self.created(name),
            _ => Opened::Target(Target::File(self.names[name])),
        };
        self.open.insert(record.descriptor, opened);
        if let (EMPTIED, Opened::Target(Target::File(file))) = (record.number, opened) {
            self.steps.push(Step::Change(Change::Truncate { file, length: 0 }));
        }
    }

    fn created(&mut self, name: &'a str) -> Opened {
        let file = self.files;
        self.files += 1;
        self.names.insert(name, file);
        self.steps.push(Step::Change(Change::Name { name, file: Some(file) }));
        Opened::Target(Target::File(file))
    }

    fn wrote(&mut self, record: &Record<'a>) {
        match self.open[&record.descriptor] {
            Opened::Ignored => (),
            Opened::PromiseLog => self.steps.push(Step::Note(record.text())),
            Opened::Target(Target::Folder) => panic!("a folder cannot be written"),
            Opened::Target(Target::File(file)) => self.steps.push(Step::Change(Change::Write {
                file,
                offset: record.number,
                data: record.bytes,
            })),
        }
    }

    fn truncated(&mut self, record: &Record<'a>) {
        if let Opened::Target(Target::File(file)) = self.open[&record.descriptor] {
            self.steps.push(Step::Change(Change::Truncate { file, length: record.number }));
        }
    }

    fn synced(&mut self, record: &Record<'a>, step: fn(Target) -> Step<'a>) {
        if let Opened::Target(target) = self.open[&record.descriptor] {
            self.steps.push(step(target));
        }
    }

    fn unlinked(&mut self, record: &Record<'a>) {
        let name = record.text();
        if !is_ignored(name) {
            self.names.remove(name);
            self.steps.push(Step::Change(Change::Name { name, file: None }));
        }
    }
}

fn is_ignored(name: &str) -> bool {
    name.ends_with("-shm")
}

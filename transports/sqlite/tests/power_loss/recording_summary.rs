//! Counts the events of a recording, to check that it is a meaningful test.

use super::{
    database::DATABASE,
    log::{Change, Step, Target},
};

#[derive(Debug, Default)]
pub(crate) struct RecordingSummary {
    pub(crate) database_syncs: usize,
    pub(crate) log_syncs: usize,
    pub(crate) log_removals: usize,
    /// How often a write-ahead log restarted.
    pub(crate) log_resets: usize,
    pub(crate) failed_syncs: usize,
}

impl RecordingSummary {
    pub(crate) fn of(steps: &[Step<'_>]) -> Self {
        let mut summary = Self::default();
        let mut names = Vec::new(); // names of the files, by number
        let (mut logs, mut log_starts, log) = (0, 0, format!("{DATABASE}-wal"));
        for step in steps {
            match step {
                Step::Change(Change::Name { name, file: Some(_) }) => {
                    names.push(*name);
                    logs += usize::from(*name == log);
                }
                Step::Change(Change::Name { name, file: None }) => {
                    summary.log_removals += usize::from(*name == log);
                }
                Step::Change(Change::Write { file, offset: 0, .. }) => {
                    log_starts += usize::from(names[*file] == log);
                }
                Step::SyncDone(Target::File(file)) => {
                    summary.log_syncs += usize::from(names[*file] == log);
                    summary.database_syncs += usize::from(names[*file] == DATABASE);
                }
                Step::SyncFailed(_) => summary.failed_syncs += 1,
                _ => (),
            }
        }
        Self { log_resets: log_starts - logs, ..summary }
    }
}

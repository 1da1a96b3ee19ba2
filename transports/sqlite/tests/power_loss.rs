//! What was acknowledged survives a power loss.
//!
//! A workload runs once with a shim in front of the C library, which records every write, truncation,
//! creation, removal and sync of the database's folder, and in the same order what the workload was
//! promised. Then the power is cut at thousands of moments of that recording: what was synced is there,
//! of the rest there is any part. Each image is opened with the product and compared with the promises.
//!
//! Killing a process proves nothing about this: the operating system keeps what it was given.
//!
//! `BEZOAR_SEED` repeats the choices of a run; how the workload's threads took turns is not repeated, so
//! bad images are kept.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is a test")]

use std::env;

use bezoar_sqlite::Synchronous;
use rand::RngExt;

mod power_loss {
    pub(crate) mod crash_sweep;
    pub(crate) mod database;
    pub(crate) mod disk;
    pub(crate) mod image_check;
    pub(crate) mod log;
    pub(crate) mod message;
    pub(crate) mod promises;
    pub(crate) mod recording;
    pub(crate) mod recording_summary;
    pub(crate) mod survival;
    pub(crate) mod workload;
}

use power_loss::{
    crash_sweep::{Report, sweep},
    database::DATABASE,
    log::{Step, Target, first_of},
    recording::{self, Recording},
    recording_summary::RecordingSummary,
};

#[test]
fn nothing_acknowledged_is_lost() {
    let (mut report, summary) = run(Synchronous::Full, Device::Honest, 1_400);
    report.expect_good();
    assert!(report.distinct >= 10_000, "{report}");
    assert!(summary.log_syncs > 300 && summary.database_syncs > 3, "{summary:?}");
    assert!(summary.log_resets > 1 && summary.log_removals > 1, "{summary:?}");
}

/// The negative control of losses.
#[test]
fn commits_that_do_not_wait_for_the_disk_are_caught_losing_messages() {
    let (report, _) = run(Synchronous::Normal, Device::Honest, 40);
    assert!(report.lost > 0, "{report}");
    assert_eq!(report.corrupt, 0, "{report}");
}

/// The negative control of corruption.
#[test]
fn a_disk_that_ignores_syncs_is_caught_corrupting_the_database() {
    let (report, _) = run(Synchronous::Full, Device::Lying, 40);
    assert!(report.corrupt > 0, "{report}");
}

#[test]
#[ignore = "the workload that the other tests record; they start it"]
fn workload() {
    recording::run_workload();
}

/// What a sync is worth.
#[derive(Debug, Clone, Copy)]
enum Device {
    Honest,
    /// It says that the database is synced, and it is not; the write-ahead log is.
    Lying,
}

impl Device {
    fn obeys(self, step: &Step<'_>, database: Target) -> bool {
        match (self, step) {
            (Self::Lying, Step::SyncStart(target) | Step::SyncDone(target)) => *target != database,
            _ => true,
        }
    }
}

/// Records a workload and cuts the power at about so many moments of it.
fn run(synchronous: Synchronous, device: Device, points: usize) -> (Report, RecordingSummary) {
    let seed =
        env::var("BEZOAR_SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().unwrap());
    println!("{synchronous:?}, {device:?}: BEZOAR_SEED={seed}");
    let recording = Recording::make(synchronous, seed);
    recording.check();
    let mut steps = recording.steps();
    let summary = RecordingSummary::of(&steps);
    println!("{} steps, {summary:?}", steps.len());
    let database = first_of(&steps, DATABASE);
    steps.retain(|step| device.obeys(step, database));
    let report = sweep(&steps, points, seed);
    println!("{synchronous:?}, {device:?}: {report}");
    (report, summary)
}

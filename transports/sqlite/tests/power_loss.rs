//! Acknowledged messages survive a power loss.
//!
//! A workload runs once with a shim in front of the C library, which records every write, truncation,
//! creation, removal and sync of the database's folder, and, in the same order, the promises made to
//! the workload. Then the power is cut at thousands of moments of that recording: synced changes are on
//! disk, and any part of the others. Each image is opened with the transport and compared with the
//! promises.
//!
//! Killing a process would prove nothing, because the operating system keeps its writes.
//!
//! In a second recording syncs fail and the process is killed and started again: the kernel then shows pages
//! that are not on disk and that no later sync writes.
//!
//! `BEZOAR_SEED` repeats the choices of a run; it does not repeat the scheduling of the workload's
//! threads, so bad images are kept.

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
    log::{Step, Target, first_of, without_repetitions},
    recording::{self, Recording},
    recording_summary::RecordingSummary,
};

#[test]
fn nothing_acknowledged_is_lost() {
    keeps_what_it_acknowledged(400, 2_500);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
fn soak_nothing_acknowledged_is_lost() {
    keeps_what_it_acknowledged(1_400, 10_000);
}

fn keeps_what_it_acknowledged(points: usize, images: usize) {
    let (mut report, summary) = run(Synchronous::Full, Device::Honest, points);
    report.expect_good();
    assert!(report.distinct >= images, "{report}");
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

/// A sync fails, the process is killed and another goes on, and then the power is cut.
#[test]
fn nothing_acknowledged_is_lost_after_failed_syncs_and_restarts() {
    keeps_what_it_acknowledged_after_failed_syncs(60, 600);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
fn soak_nothing_acknowledged_is_lost_after_failed_syncs_and_restarts() {
    keeps_what_it_acknowledged_after_failed_syncs(150, 1_500);
}

fn keeps_what_it_acknowledged_after_failed_syncs(points: usize, images: usize) {
    let (mut report, summary) = run_failing(Kernel::Usual, points);
    report.expect_good();
    assert!(report.distinct >= images, "{report}");
    assert!(summary.failed_syncs >= 6, "{summary:?}");
}

/// The negative control: the log is not written again when the database is opened. The next
/// checkpoint then copies pages into the database whose frames are not on disk.
#[test]
fn building_on_what_a_failed_sync_left_is_caught() {
    // In a few runs of a hundred no crash falls between the failed sync and the next write of its page.
    let caught = (0..5).any(|_| {
        let (report, _) = run_failing(Kernel::SkipsWritesThatChangeNothing, 100);
        println!("{report}");
        report.lost + report.corrupt > 0
    });
    assert!(caught, "none of five runs found a loss");
}

#[test]
#[ignore = "the workload that the other tests record; they start it"]
fn workload() {
    recording::run_workload();
}

/// How reliable a sync is.
#[derive(Debug, Clone, Copy)]
enum Device {
    Honest,
    /// It reports the database as synced although it is not; the write-ahead log is synced.
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

/// What happens to a write to the log that does not change its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Usual,
    SkipsWritesThatChangeNothing,
}

/// Records a workload that is killed after failed syncs and started again, and cuts the power.
fn run_failing(kernel: Kernel, points: usize) -> (Report, RecordingSummary) {
    let seed = seed();
    println!("{kernel:?}: BEZOAR_SEED={seed}");
    let recording = Recording::make_with_failing_syncs(seed);
    recording.check();
    let mut steps = recording.steps();
    let summary = RecordingSummary::of(&steps);
    println!("{} steps, {summary:?}", steps.len());
    if kernel == Kernel::SkipsWritesThatChangeNothing {
        steps = without_repetitions(&steps, &format!("{DATABASE}-wal"));
    }
    let report = sweep(&steps, points, seed);
    println!("{kernel:?}: {report}");
    (report, summary)
}

fn seed() -> u64 {
    env::var("BEZOAR_SEED").map_or_else(|_| rand::rng().random(), |it| it.parse().unwrap())
}

/// Records a workload and cuts the power at about this many moments.
fn run(synchronous: Synchronous, device: Device, points: usize) -> (Report, RecordingSummary) {
    let seed = seed();
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

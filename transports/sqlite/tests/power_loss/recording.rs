//! Runs a workload once and records it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use bezoar_sqlite::Synchronous;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use super::{
    disk::{Disk, Fate},
    log::{self, PROMISE_LOG, Step},
    workload,
};

const FOLDER: &str = "BEZOAR_RECORD_FOLDER";
const LOG: &str = "BEZOAR_RECORD_LOG";
const SYNCHRONOUS: &str = "BEZOAR_RECORD_SYNCHRONOUS";
const SEED: &str = "BEZOAR_RECORD_SEED";
const NUMBER: &str = "BEZOAR_RECORD_NUMBER";
const FAIL_SYNC: &str = "BEZOAR_RECORD_FAIL_SYNC";
const EXIT_SYNC: &str = "BEZOAR_RECORD_EXIT_SYNC";
/// As in shim.c.
const KILLED: i32 = 42;
/// The number of processes with a failing sync.
const FAILURES: u64 = 8;

/// One run of the workload.
#[derive(Debug, Default)]
struct Process {
    /// The number of earlier runs in the same folder.
    number: u64,
    seed: u64,
    /// The sync that fails, and the one at which the process is killed.
    fails: Option<(u64, u64)>,
}

type Files = BTreeMap<String, Vec<u8>>;

/// The changes that the workload made to its folder.
pub(crate) struct Recording {
    log: Vec<u8>,
    /// The folder as the workload left it.
    left: Files,
}

impl Recording {
    /// Runs the workload in a process of its own, with the shim in front of the C library.
    pub(crate) fn make(synchronous: Synchronous, seed: u64) -> Self {
        Self::make_in_turn(synchronous, &[Process { seed, ..Process::default() }])
    }

    /// Runs it many times in the same folder. Each time except the last, a sync fails and the process is
    /// killed at that moment or soon after.
    pub(crate) fn make_with_failing_syncs(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut processes: Vec<_> = (0..FAILURES)
            .map(|number| {
                let fail_sync = random.random_range(8..90);
                let exit_sync = fail_sync + random.random_range(0..2) * random.random_range(1..6);
                Process { number, seed: seed + number, fails: Some((fail_sync, exit_sync)) }
            })
            .collect();
        processes.push(Process { number: FAILURES, seed, fails: None });
        Self::make_in_turn(Synchronous::Full, &processes)
    }

    fn make_in_turn(synchronous: Synchronous, processes: &[Process]) -> Self {
        // In the build folder and not in memory, because other threads continue during a slow sync.
        let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place_path = place.path().canonicalize().unwrap();
        let (folder, log) = (place_path.join("folder"), place_path.join("log"));
        fs::create_dir(&folder).unwrap();
        let shim = compile_shim(&place_path);
        for process in processes {
            let mut child = Command::new(env::current_exe().unwrap());
            child.args(["--exact", "workload", "--ignored", "--nocapture"]);
            child.env("LD_PRELOAD", &shim).env(FOLDER, &folder).env(LOG, &log);
            child.env(SYNCHRONOUS, format!("{synchronous:?}")).env(SEED, process.seed.to_string());
            child.env(NUMBER, process.number.to_string());
            if let Some((fail_sync, exit_sync)) = process.fails {
                child.env(FAIL_SYNC, fail_sync.to_string()).env(EXIT_SYNC, exit_sync.to_string());
            }
            let output = child.output().unwrap();
            let expected = if process.fails.is_some() { KILLED } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "the workload: {output:#?}");
        }
        Self { log: fs::read(log).unwrap(), left: read_folder(&folder) }
    }

    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        log::read(&self.log)
    }

    /// Checks that the log is complete: replaying it gives the same files, byte for byte.
    pub(crate) fn check(&self) {
        let mut disk = Disk::default();
        self.steps().into_iter().for_each(|step| disk.follow(step));
        let folder = TempDir::new().unwrap();
        let everything = disk.crash(&vec![Fate::Kept; disk.pending().len()]);
        disk.put(&everything, folder.path()).unwrap();
        let replayed = read_folder(folder.path());
        let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&replayed), names(&self.left));
        assert!(replayed == self.left, "replaying the log does not give the recorded files");
    }
}

/// The body of the ignored test: runs the workload for the recording that started it, or
/// unrecorded.
pub(crate) fn run_workload() {
    let Some(folder) = env::var_os(FOLDER) else {
        let folder = TempDir::new().unwrap();
        return workload::run(folder.path(), Synchronous::Full, 0, 0);
    };
    let synchronous = match env::var(SYNCHRONOUS).unwrap().as_str() {
        "Full" => Synchronous::Full,
        _ => Synchronous::Normal,
    };
    let number = |name| env::var(name).unwrap().parse().unwrap();
    workload::run(Path::new(&folder), synchronous, number(SEED), number(NUMBER) as u32);
}

fn compile_shim(place: &Path) -> PathBuf {
    let (source, shim) = (place.join("shim.c"), place.join("shim.so"));
    fs::write(&source, include_str!("shim.c")).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&shim).arg(&source);
    let output = compiler.output().expect("this test needs a C compiler: install `cc`");
    assert!(output.status.success(), "the shim does not compile: {output:#?}");
    shim
}

fn read_folder(folder: &Path) -> Files {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| (file.file_name().into_string().unwrap(), file.path()));
    let crashed = files.filter(|(name, _)| name != PROMISE_LOG && !name.ends_with("-shm"));
    crashed.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

//! Cuts the power at many moments of a recording, each in many ways.

use std::{
    collections::{BTreeSet, HashSet},
    fmt, fs,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    path::Path,
    sync::Mutex,
    thread,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;

use super::{
    disk::{Disk, Image},
    image_check::{Bodies, Checker, Usage, Verdict, bodies},
    log::{Change, Step, Target},
    promises::Promises,
    survival::Survival,
};

/// One image in this many is also used, not only checked.
const USED_EVERY: usize = 8;
const THREADS: usize = 2;
/// How many bad images a thread keeps.
const EXAMPLES_LIMIT: usize = 3;

/// The results.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) points: usize,
    /// Images that were opened; one is opened again if more was promised since.
    pub(crate) images: usize,
    pub(crate) distinct: usize,
    /// Images in which something acknowledged was lost, and the total number of messages.
    pub(crate) lossy: usize,
    pub(crate) lost: usize,
    pub(crate) corrupt: usize,
    examples: Vec<Example>,
}

/// A bad image: what is wrong with it, and where it is.
#[derive(Debug)]
struct Example {
    problem: String,
    folder: TempDir,
}

impl Report {
    /// Panics if an image is bad, and keeps the bad images for analysis.
    pub(crate) fn expect_good(&mut self) {
        self.examples.iter_mut().for_each(|example| example.folder.disable_cleanup(true));
        let folders: Vec<_> = self.examples.iter().map(|example| example.folder.path()).collect();
        assert_eq!((self.lost, self.corrupt), (0, 0), "{self}\nkept in {folders:#?}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { points, images, distinct, lossy, lost, corrupt, examples } = self;
        write!(
            f,
            "{images} images ({distinct} distinct) of {points} crash points: {corrupt} corrupt, "
        )?;
        write!(f, "{lossy} with losses ({lost} messages)")?;
        examples.iter().try_for_each(|example| write!(f, "\n  {}", example.problem))
    }
}

/// Cuts the power at about `count` moments.
pub(crate) fn sweep(steps: &[Step<'_>], count: usize, seed: u64) -> Report {
    let points = Vec::from_iter(points(steps, count, seed));
    let (bodies, seen) = (bodies(&promises(steps)), Seen::default());
    let run = |turn| {
        let mine = points.iter().copied().skip(turn).step_by(THREADS).collect();
        Sweeper::new(&bodies, &seen, seed).sweep(steps, &mine)
    };
    let report = thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS).map(|turn| scope.spawn(move || run(turn))).collect();
        let reports = threads.into_iter().map(|thread| thread.join().unwrap());
        reports.fold(Report::default(), Report::and)
    });
    Report { distinct: seen.images(), ..report }
}

fn promises(steps: &[Step<'_>]) -> Promises {
    let mut promises = Promises::default();
    for step in steps {
        if let Step::Note(note) = step {
            promises.follow(note);
        }
    }
    promises
}

/// The steps after which the power is cut: spread evenly, at random, and wherever something rare
/// happens.
fn points(steps: &[Step<'_>], count: usize, seed: u64) -> BTreeSet<usize> {
    let mut random = StdRng::seed_from_u64(seed);
    let even = (0..count / 2).map(|at| at * steps.len() / (count / 2));
    let random = (0..count / 2).map(|_| random.random_range(0..steps.len()));
    let rare = (0..steps.len()).filter(|at| is_rare(&steps[*at]));
    even.chain(random).chain(rare).collect()
}

fn is_rare(step: &Step<'_>) -> bool {
    match step {
        Step::Change(Change::Name { .. } | Change::Truncate { .. }) => true,
        Step::Change(Change::Write { offset, .. }) => *offset == 0,
        Step::SyncStart(target) | Step::SyncDone(target) => *target == Target::Folder,
        Step::SyncFailed(_) => true,
        Step::Note(_) => false,
    }
}

/// The images that were already checked, by hash.
#[derive(Debug, Default)]
struct Seen(Mutex<(HashSet<u64>, HashSet<u64>)>);

impl Seen {
    /// Whether an image is new, or more was promised since it was last checked.
    fn is_new(&self, syncs: usize, notes: usize, image: &Image<'_>) -> bool {
        let image = BuildHasherDefault::<DefaultHasher>::default().hash_one((syncs, image));
        let case = BuildHasherDefault::<DefaultHasher>::default().hash_one((notes, image));
        let mut seen = self.0.lock().unwrap();
        seen.0.insert(image);
        seen.1.insert(case)
    }

    fn images(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }
}

struct Sweeper<'a> {
    /// Files that are overwritten for each image, because freeing and allocating their memory each time would
    /// double the run time.
    pool: TempDir,
    /// The folder that is opened, with links into the pool.
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
    bodies: &'a Bodies,
    seen: &'a Seen,
    seed: u64,
    report: Report,
}

impl<'a> Sweeper<'a> {
    fn new(bodies: &'a Bodies, seen: &'a Seen, seed: u64) -> Self {
        // In memory where possible, because thousands of images are created and deleted.
        let folder = || TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let (pool, folder) = (folder(), folder());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { pool, folder, runtime, bodies, seen, seed, report: Report::default() }
    }

    fn sweep(mut self, steps: &[Step<'_>], points: &BTreeSet<usize>) -> Report {
        let (mut disk, mut promises) = (Disk::default(), Promises::default());
        for (at, step) in steps.iter().enumerate() {
            disk.follow(*step);
            if let Step::Note(note) = step {
                promises.follow(note);
            }
            if points.contains(&at) {
                self.cut(at, &disk, &promises);
            }
        }
        self.report
    }

    /// Cuts the power at one moment, twice in every way, because most ways give a different image each
    /// time.
    fn cut(&mut self, point: usize, disk: &Disk<'_>, promises: &Promises) {
        let mut random = StdRng::seed_from_u64(self.seed ^ point as u64);
        let pending: Vec<_> = disk.pending().collect();
        for survival in Survival::ALL.into_iter().chain(Survival::ALL) {
            let image = disk.crash(&survival.fates(&pending, &mut random));
            if !self.seen.is_new(disk.syncs, promises.notes, &image) {
                continue;
            }
            disk.put(&image, self.pool.path()).unwrap();
            self.link(image.keys());
            let verdict = self.check(promises);
            let name = format!("step {point}, {survival:?}");
            self.report.add(verdict, &name, |folder| disk.put(&image, folder).unwrap());
        }
        self.report.points += 1;
    }

    /// Links these files of the pool into the folder.
    fn link<'n>(&self, names: impl Iterator<Item = &'n &'n str>) {
        for left in fs::read_dir(self.folder.path()).unwrap() {
            fs::remove_file(left.unwrap().path()).unwrap();
        }
        for name in names {
            fs::hard_link(self.pool.path().join(name), self.folder.path().join(name)).unwrap();
        }
    }

    fn check(&self, promises: &Promises) -> Verdict {
        let is_used = self.report.images.is_multiple_of(USED_EVERY);
        let usage = if is_used { Usage::On(&self.runtime) } else { Usage::None };
        Checker { folder: self.folder.path(), bodies: self.bodies }.check(promises, usage)
    }
}

impl Report {
    fn add(&mut self, verdict: Verdict, name: &str, put: impl Fn(&Path)) {
        self.images += 1;
        if verdict.is_good() {
            return;
        }
        self.lossy += usize::from(!verdict.lost.is_empty());
        self.lost += verdict.lost.len();
        self.corrupt += usize::from(!verdict.corrupt.is_empty());
        if self.examples.len() < EXAMPLES_LIMIT {
            let folder =
                TempDir::with_prefix_in("power-loss-", env!("CARGO_TARGET_TMPDIR")).unwrap();
            put(folder.path());
            self.examples.push(Example { problem: format!("{name}: {verdict}"), folder });
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.points += other.points;
        self.images += other.images;
        self.lossy += other.lossy;
        self.lost += other.lost;
        self.corrupt += other.corrupt;
        self.examples.extend(other.examples);
        self
    }
}

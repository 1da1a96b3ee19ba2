//! Other embedded queues: each fills its own database and times its own worker, in a process of
//! its own, and prints one line of JSON.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};
use bench_support::{
    Measurement, Place,
    peers::{Line, cargo, process, python, reason},
    progress,
};

use crate::options::Sizes;

const RUN_LIMIT: Duration = Duration::from_secs(300);

/// The other queues, installed as far as possible.
#[derive(Debug)]
pub(crate) struct Peers {
    installed: Installed,
    all: Vec<Peer>,
}

/// One of them, with the settings it last reported or the reason why there is no number.
#[derive(Debug)]
struct Peer {
    variant: &'static Variant,
    settings: Result<String, String>,
}

impl Peers {
    pub(crate) fn none() -> Peers {
        Peers { installed: Installed::nothing(), all: Vec::new() }
    }

    /// Builds and installs what is missing.
    pub(crate) fn prepare(place: &Place) -> Peers {
        progress("preparing the peers");
        let all = VARIANTS.iter().map(|variant| Peer { variant, settings: Ok(String::new()) });
        Peers { installed: Installed::install(place), all: all.collect() }
    }

    /// Every peer once; one that failed before is not tried again.
    pub(crate) fn round(&mut self, place: &Place, sizes: &Sizes) -> Vec<Measurement> {
        let installed = &self.installed;
        self.all.iter_mut().filter_map(|peer| peer.measure(place, sizes, installed)).collect()
    }

    /// Name and settings of each, or why it could not be measured.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, Result<&str, &str>)> {
        self.all
            .iter()
            .map(|peer| (peer.variant.name, peer.settings.as_deref().map_err(String::as_str)))
    }
}

impl Peer {
    fn measure(
        &mut self,
        place: &Place,
        sizes: &Sizes,
        installed: &Installed,
    ) -> Option<Measurement> {
        self.settings.as_ref().ok()?;
        progress(self.variant.name);
        match self.variant.run(place, sizes, installed) {
            Ok(line) => {
                self.settings = Ok(line.settings);
                let name = self.variant.name.to_owned();
                Some(Measurement { name, per_second: line.processed_per_second })
            }
            Err(error) => {
                self.settings = Err(reason(&error));
                None
            }
        }
    }
}

/// A program in one of its modes. `share`: that much fewer messages than the limit handles, for
/// two to three seconds of work.
#[derive(Debug)]
struct Variant {
    name: &'static str,
    program: Program,
    mode: &'static str,
    share: u64,
}

#[derive(Debug, Clone, Copy)]
enum Program {
    Apalis,
    Huey,
    PersistQueue,
}

static VARIANTS: [Variant; 7] = [
    // Untuned apalis slows down with the backlog, so that a short one is in its favour.
    Variant::new("apalis-sqlite, as it comes", Program::Apalis, "as-it-comes", 120),
    Variant::new("apalis-sqlite, durable", Program::Apalis, "durable", 120),
    Variant::new("apalis-sqlite, durable, tuned", Program::Apalis, "best", 5),
    Variant::new("huey, default", Program::Huey, "default", 30),
    Variant::new("huey, fsync", Program::Huey, "fsync", 30),
    Variant::new("persist-queue, get and ack", Program::PersistQueue, "ack", 30),
    Variant::new("persist-queue, get deletes", Program::PersistQueue, "fifo", 20),
];

impl Variant {
    const fn new(name: &'static str, program: Program, mode: &'static str, share: u64) -> Self {
        Variant { name, program, mode, share }
    }

    fn run(&self, place: &Place, sizes: &Sizes, installed: &Installed) -> Result<Line> {
        let directory = place.scratch()?;
        let data = directory.path().join("data");
        std::fs::create_dir(&data)?;
        let mut command = installed.command(self.program)?;
        command.arg("--directory").arg(&data).args(["--mode", self.mode]);
        command.arg("--messages").arg(sizes.share(self.share).to_string());
        let output = process::run(&mut command, RUN_LIMIT, directory.path())?;
        Line::parse(&output)
    }
}

/// How each program is started, or why it cannot be.
#[derive(Debug)]
struct Installed {
    apalis: Result<cargo::Binary, String>,
    python: Result<python::Interpreter, String>,
}

impl Installed {
    fn nothing() -> Installed {
        let skipped = "skipped".to_owned();
        Installed { apalis: Err(skipped.clone()), python: Err(skipped) }
    }

    fn install(place: &Place) -> Installed {
        Installed {
            apalis: cargo::build(place, "apalis").map_err(|error| reason(&error)),
            python: python::install(place, "", "bench-venv").map_err(|error| reason(&error)),
        }
    }

    fn command(&self, program: Program) -> Result<Command> {
        match program {
            Program::Apalis => self.apalis.as_ref().map(cargo::Binary::command),
            Program::Huey => self.python.as_ref().map(|p| p.command("huey_peer.py")),
            Program::PersistQueue => {
                self.python.as_ref().map(|p| p.command("persist_queue_peer.py"))
            }
        }
        .map_err(|reason| anyhow!("{reason}"))
    }
}

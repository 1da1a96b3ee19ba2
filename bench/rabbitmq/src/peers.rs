//! Other programs on the same broker, each in a process of its own, which prints one line of JSON.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Result, anyhow};
use bench_support::{
    Measurement, Place,
    peers::{Line, cargo, node, process, python, reason},
    progress,
};

use crate::{
    bare,
    broker::{BODY, Bare, PREFETCH},
    http::{Endpoint, IN_FLIGHT},
    options::Sizes,
};

const RUN_LIMIT: Duration = Duration::from_secs(400);
const QUEUE: &str = "peer";
/// apalis reads jobs as JSON, so it gets text of about the same size.
const JSON_BODY: &str = concat!(
    "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\""
);

/// A program in one of its modes. `share`: that much fewer messages than the limit handles, for some seconds of
/// work. `needed`: how many times as fast we must be.
#[derive(Debug)]
struct Variant {
    name: &'static str,
    program: Program,
    mode: Mode,
    share: u64,
    needed: f64,
}

#[derive(Debug, Clone, Copy)]
enum Program {
    ApalisAmqp,
    Amqplib,
    AmqplibHttp,
    Dramatiq,
    Celery,
}

/// What a peer does with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing.
    Consume,
    /// Fails it, retries it twice, sets it aside.
    Fail,
    /// Posts it to an endpoint.
    Http,
}

static VARIANTS: [Variant; 7] = [
    Variant::new("apalis-amqp: does nothing", Program::ApalisAmqp, Mode::Consume, 2, 1.0),
    Variant::new("amqplib: does nothing", Program::Amqplib, Mode::Consume, 2, 1.0),
    Variant::new("Dramatiq: does nothing", Program::Dramatiq, Mode::Consume, 5, 2.5),
    Variant::new("Celery: does nothing", Program::Celery, Mode::Consume, 10, 8.0),
    Variant::new("Dramatiq: fails, retries, sets aside", Program::Dramatiq, Mode::Fail, 50, 1.0),
    Variant::new("Celery: fails, retries, sets aside", Program::Celery, Mode::Fail, 100, 5.0),
    Variant::new(
        "amqplib and undici: queue to HTTP endpoint",
        Program::AmqplibHttp,
        Mode::Http,
        5,
        1.0,
    ),
];

impl Variant {
    const fn new(
        name: &'static str,
        program: Program,
        mode: Mode,
        share: u64,
        needed: f64,
    ) -> Self {
        Self { name, program, mode, share, needed }
    }
}

/// The peers, installed as far as possible.
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

/// What the report needs of a peer.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: Mode,
    pub(crate) needed: f64,
    pub(crate) settings: Result<&'a str, &'a str>,
}

impl Peers {
    /// Builds and installs what is missing.
    pub(crate) fn prepare(place: &Place) -> Self {
        progress("preparing the peers");
        let all = VARIANTS.iter().map(|variant| Peer { variant, settings: Ok(String::new()) });
        Self { installed: Installed::install(place), all: all.collect() }
    }

    /// Every peer once; one that failed before is not tried again.
    pub(crate) async fn round(
        &mut self,
        place: &Place,
        url: &str,
        sizes: &Sizes,
    ) -> Result<Vec<Measurement>> {
        let mut measured = Vec::new();
        for Peer { variant, settings } in self.all.iter_mut().filter(|it| it.settings.is_ok()) {
            progress(variant.name);
            match measure(variant, &self.installed, place, url, sizes).await {
                Ok(line) => {
                    measured.push(Measurement::new(variant.name, line.processed_per_second));
                    *settings = Ok(line.settings);
                }
                Err(error) => *settings = Err(reason(&error)),
            }
        }
        Ok(measured)
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.all.iter().map(|Peer { variant, settings }| Shown {
            name: variant.name,
            mode: variant.mode,
            needed: variant.needed,
            settings: settings.as_deref().map_err(String::as_str),
        })
    }
}

async fn measure(
    variant: &Variant,
    installed: &Installed,
    place: &Place,
    url: &str,
    sizes: &Sizes,
) -> Result<Line> {
    let (directory, count) = (place.scratch()?, sizes.share(variant.share));
    let mut command = installed.command(variant.program)?;
    command.args(["--url", url, "--queue", QUEUE]);
    command.args(["--messages", &count.to_string()]);
    let prefetch = if variant.mode == Mode::Http { IN_FLIGHT } else { PREFETCH.into() };
    command.args(["--prefetch", &prefetch.to_string()]);
    let endpoint = Endpoint::start().await?;
    match variant.program {
        Program::ApalisAmqp => fill(url, count, JSON_BODY.as_bytes()).await?,
        Program::Amqplib => fill(url, count, &BODY).await?,
        Program::AmqplibHttp => {
            fill(url, count, &BODY).await?;
            command.args(["--endpoint", &format!("http://127.0.0.1:{}", endpoint.port)]);
        }
        Program::Dramatiq | Program::Celery => {
            let mode = if variant.mode == Mode::Fail { "fail" } else { "consume" };
            command.args(["--mode", mode, "--directory"]).arg(directory.path());
        }
    }
    let output = run(command, directory.path()).await;
    let bare = Bare::connect(url).await?;
    bare.delete(&[QUEUE]).await?;
    bare.close().await;
    Line::parse(&output?)
}

/// Those that bring no messages of their own get the ones that the bare program gets.
async fn fill(url: &str, count: u64, body: &[u8]) -> Result<()> {
    let bare = Bare::connect(url).await?;
    bare.fresh(QUEUE, &[]).await?;
    bare.close().await;
    bare::publish_bodies(url, QUEUE, count, body).await.map(drop)
}

/// On a thread of its own: it only waits.
async fn run(mut command: Command, scratch: &Path) -> Result<String> {
    let scratch = scratch.to_owned();
    let running =
        tokio::task::spawn_blocking(move || process::run(&mut command, RUN_LIMIT, &scratch));
    running.await?
}

/// How each program is started, or why it cannot be.
#[derive(Debug)]
struct Installed {
    apalis: Result<cargo::Binary, String>,
    node: Result<node::Scripts, String>,
    python: Result<python::Interpreter, String>,
}

impl Installed {
    fn install(place: &Place) -> Self {
        let python = python::install(place, "rabbitmq", "bench-venv-rabbitmq");
        let node = node::install(place, "rabbitmq", "bench-node-rabbitmq");
        Self {
            apalis: cargo::build(place, "apalis-amqp").map_err(|error| reason(&error)),
            node: node.map_err(|error| reason(&error)),
            python: python.map_err(|error| reason(&error)),
        }
    }

    fn command(&self, program: Program) -> Result<Command> {
        match program {
            Program::ApalisAmqp => self.apalis.as_ref().map(cargo::Binary::command),
            Program::Amqplib => self.node.as_ref().map(|node| node.command("amqplib_peer.js")),
            Program::AmqplibHttp => self.node.as_ref().map(|it| it.command("amqplib_http_peer.js")),
            Program::Dramatiq => self.python.as_ref().map(|it| it.command("dramatiq_peer.py")),
            Program::Celery => self.python.as_ref().map(|it| it.command("celery_peer.py")),
        }
        .map_err(|reason| anyhow!("{reason}"))
    }
}

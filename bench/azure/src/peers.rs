//! Microsoft's clients for Python and Node, each in a process of its own, which prints one line of JSON.

use std::{process::Command, time::Duration};

use anyhow::{Result, anyhow};
use bench_support::{
    Measurement, Place,
    peers::{Line, node, process, python, reason},
    progress,
};

use crate::{BODY, CONCURRENCY, server::Server};

const RUN_LIMIT: Duration = Duration::from_secs(400);

/// Both, installed as far as possible.
#[derive(Debug)]
pub(crate) struct Peers([Peer; 2]);

#[derive(Debug)]
struct Peer {
    name: &'static str,
    program: Result<Program, String>,
    /// What it last reported, or the reason why there is no number.
    settings: Result<String, String>,
}

#[derive(Debug)]
enum Program {
    Python(python::Interpreter),
    Node(node::Scripts),
}

impl Program {
    fn command(&self) -> Command {
        match self {
            Self::Python(python) => python.command("storage_queue_peer.py"),
            Self::Node(node) => node.command("storage_queue_peer.js"),
        }
    }
}

impl Peers {
    /// Installs what is missing.
    pub(crate) fn prepare(place: &Place) -> Self {
        progress("preparing the peers");
        let python = python::install(place, "azure", "bench-venv-azure").map(Program::Python);
        let node = node::install(place, "azure", "bench-node-azure").map(Program::Node);
        let peer = |name, program: Result<Program>| {
            let program = program.map_err(|error| reason(&error));
            Peer { name, program, settings: Ok(String::new()) }
        };
        Self([peer("Python client", python), peer("Node client", node)])
    }

    /// Each once; one that failed before is not tried again.
    pub(crate) async fn round(
        &mut self,
        place: &Place,
        server: &Server,
        count: u64,
    ) -> Result<Vec<Measurement>> {
        let mut measured = Vec::new();
        for peer in self.0.iter_mut().filter(|it| it.settings.is_ok()) {
            progress(peer.name);
            match measure(peer, place, server, count).await {
                Ok(line) => {
                    let name = server.row(peer.name);
                    measured.push(Measurement::new(&name, line.processed_per_second));
                    peer.settings = Ok(line.settings);
                }
                Err(error) => peer.settings = Err(reason(&error)),
            }
        }
        Ok(measured)
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, Result<&str, &str>)> {
        self.0.iter().map(|it| (it.name, it.settings.as_deref().map_err(String::as_str)))
    }
}

async fn measure(peer: &Peer, place: &Place, server: &Server, count: u64) -> Result<Line> {
    let program = peer.program.as_ref().map_err(|reason| anyhow!("{reason}"))?;
    let mut command = program.command();
    command.args(["--account", &server.connection_string(), "--queue", "bench-peer"]);
    command.args(["--messages", &count.to_string()]);
    command.args(["--concurrency", &CONCURRENCY.to_string()]);
    command.args(["--bytes", &BODY.len().to_string()]);
    let scratch = place.scratch()?;
    // On a thread of its own: it only waits.
    let running =
        tokio::task::spawn_blocking(move || process::run(&mut command, RUN_LIMIT, scratch.path()));
    Line::parse(&running.await??)
}

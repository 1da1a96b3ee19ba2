//! A gateway in a process of its own, so that its memory and its start are its own.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use bezoar_gateway::{
    Gateway as Running,
    config::{self, Sources},
    telemetry::{Telemetry, TelemetryOptions},
    token,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, stdin},
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::producers::{Client, Target};

const CONFIGURATION: &str = "bezoar.toml";
const PATIENCE: Duration = Duration::from_secs(60);

/// A gateway that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    address: String,
    token: String,
}

impl Gateway {
    /// Starts one in `folder` with these routes, and waits until it listens.
    pub(crate) async fn start(folder: &Path, routes: &str) -> Result<Self> {
        let listen = "[server]\nlisten = \"127.0.0.1:0\"\n";
        let store = folder.join("bezoar.db");
        let text = format!("{listen}[store]\nurl = \"sqlite:{}\"\n{routes}", store.display());
        fs::write(folder.join(CONFIGURATION), text)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log"))?)
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("piped")?).lines();
        let address = timeout(PATIENCE, lines.next_line()).await??;
        let address =
            address.with_context(|| fs::read_to_string(folder.join("log")).unwrap_or_default())?;
        let token = token::read(&folder.join(token::FILE))?;
        Ok(Self { child, address, token })
    }

    /// Where messages for a queue are posted.
    pub(crate) fn target(&self, queue: &str) -> Target {
        self.at(format!("/v1/queues/{queue}/messages"))
    }

    /// Somewhere in its API.
    pub(crate) fn at(&self, path: String) -> Target {
        Target { address: self.address.clone(), path, token: Some(self.token.clone()) }
    }

    /// Waits until a queue has nothing that is ready, delayed or in flight, and so many dead letters.
    pub(crate) async fn drained(&self, queue: &str, dead: u64) -> Result<()> {
        let drained = |queues: &Value| {
            let row = queues.as_array()?.iter().find(|row| row["queue"] == queue)?;
            let empty = ["ready", "delayed", "in_flight"].iter().all(|state| row[state] == 0);
            Some(empty && row["dead"] == dead)
        };
        self.until("/v1/queues", |queues| drained(queues) == Some(true)).await
    }

    /// Waits until an answer looks like this.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
        let mut client = Client::connect(&self.at("/".to_owned())).await?;
        let looking = async {
            while !fits(&serde_json::from_slice(&client.get(path).await?)?) {
                sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        timeout(PATIENCE, looking).await.with_context(|| format!("{path} did not get there"))?
    }

    /// Memory that it holds now.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        let process = self.child.id().context("it has ended")?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let held = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = held.context("no VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }

    /// Lets it end in its own time.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let ended = timeout(PATIENCE, self.child.wait()).await??;
        ensure!(ended.success(), "the gateway ended with {ended}");
        Ok(())
    }
}

/// The part of the child: what `bezoar up` does, until nobody holds its input any more.
pub(crate) async fn serve(folder: &Path) -> Result<()> {
    let file = folder.join(CONFIGURATION);
    let text = fs::read_to_string(&file)?;
    let sources = Sources { file: Some((file, text)), ..Sources::default() };
    let loaded = config::load(&sources, &config::read_secret).map_err(|problems| {
        anyhow::anyhow!("the benchmark's own configuration is wrong: {problems}")
    })?;
    let telemetry = Telemetry::start(&TelemetryOptions::default())?;
    let gateway = Running::start(loaded.config, telemetry.metrics().clone()).await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", gateway.address())?;
    stdout.flush()?;
    let _ = stdin().read_to_end(&mut Vec::new()).await;
    gateway.stop().await;
    Ok(())
}

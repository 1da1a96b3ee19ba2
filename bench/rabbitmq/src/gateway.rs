//! The gateway as a program of its own, from a queue on the broker to an endpoint.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use bench_support::{Measurement, Place};

use crate::{
    broker::Bare,
    http::{Endpoint, IN_FLIGHT},
};

pub(crate) const THROUGH: &str = "bezoar: queue to HTTP endpoint, through the gateway";

/// Has the program deliver what is in a queue, and times the endpoint.
pub(crate) async fn deliver(
    place: &Place,
    program: &Path,
    (url, queue): (&str, &str),
    count: u64,
) -> Result<Measurement> {
    let (folder, endpoint) = (place.scratch()?, Endpoint::start().await?);
    let file = folder.path().join("bezoar.toml");
    fs::write(&file, configuration(folder.path(), (url, queue), endpoint.port))?;
    let log = File::create(folder.path().join("log"))?;
    let mut command = Command::new(program);
    command.args(["up", "--config"]).arg(&file).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log);
    let running = Running(command.spawn().context("starting the gateway")?);
    let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let measured = endpoint.rate(THROUGH, count).await.with_context(log)?;
    drop(running);
    let bare = Bare::connect(url).await?;
    bare.delete(&[queue]).await?;
    bare.close().await;
    Ok(measured)
}

fn configuration(folder: &Path, (url, queue): (&str, &str), port: u16) -> String {
    let store = folder.join("bezoar.db");
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n\
         [store]\nurl = \"sqlite:{}\"\n\
         [transports.broker]\nurl = \"{url}\"\n\
         [[route]]\nname = \"http\"\nfrom = \"broker/{queue}\"\nto = \"http://127.0.0.1:{port}/\"\n\
         concurrency = {IN_FLIGHT}\n",
        store.display()
    )
}

/// Ends with its owner. What it holds is of no use any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

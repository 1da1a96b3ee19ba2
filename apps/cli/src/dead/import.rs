//! `bezoar dead import`: what was exported, read again.

mod chunks;

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use serde_json::json;

use self::chunks::{Chunk, Chunks};
use crate::{
    client::{ApiClient, ApiReply, ClientError, Retry, encode},
    humanize::{count, plural},
    output, reason,
};

/// For how long a gateway is waited for that is busy or away. Lines that it knows already are passed over, so
/// that sending them again does no harm.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What `bezoar dead export` wrote: a file, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Why; the audit log keeps it
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// JSON instead of words
    #[arg(long)]
    json: bool,
}

/// What became of lines.
#[derive(Debug, Default, Deserialize)]
struct ImportCounts {
    imported: u64,
    known_already: u64,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let path = format!("/v1/imports?reason={}", encode(&arguments.reason));
    let mut tally = ImportCounts::default();
    let all = import(client, &path, &arguments.file, &mut tally).await;
    if arguments.json {
        let words = json!({ "imported": tally.imported, "known_already": tally.known_already });
        output::print(&format!("{words}\n"))?;
    }
    let known = format!("{} known already", count(tally.known_already));
    output::say(&format!("{} imported, {known}", plural(tally.imported, "dead letter")));
    all
}

async fn import(
    client: &ApiClient,
    path: &str,
    file: &Path,
    tally: &mut ImportCounts,
) -> Result<()> {
    let mut chunks = Chunks::new(open(file)?);
    while let Some(chunk) = chunks.next().context("cannot read on")? {
        let lines = chunk.lines();
        let sent = send(client, path, &chunk).await.and_then(|reply| reply.parse::<ImportCounts>());
        // The gateway counts lines from the first of a request.
        let new = sent.with_context(|| format!("lines {lines}, counted from the first of them"))?;
        tally.imported += new.imported;
        tally.known_already += new.known_already;
    }
    Ok(())
}

fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path.as_os_str() != "-" {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        return Ok(Box::new(file));
    }
    if io::stdin().is_terminal() {
        bail!("nothing comes from stdin; name a file");
    }
    Ok(Box::new(io::stdin()))
}

async fn send(client: &ApiClient, path: &str, chunk: &Chunk) -> Result<ApiReply, ClientError> {
    let ndjson = HeaderValue::from_static("application/x-ndjson");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, ndjson)]);
    let mut retry = Retry::new(PATIENCE);
    loop {
        match client.upload(path, headers.clone(), chunk.bytes.clone()).await {
            Err(error) if error.is_transient() && retry.wait(error.retry_after()).await => {}
            result => return result,
        }
    }
}

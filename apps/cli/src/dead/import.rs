//! `bezoar dead import`: imports what `bezoar dead export` wrote.

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

/// How long to retry while the gateway is busy or unreachable. It skips lines that it already has, so that sending
/// them again is harmless.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// File written by `bezoar dead export`, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// How many lines were imported.
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
    let known = format!("skipped {} imported before", count(tally.known_already));
    output::say(&format!("imported {}, {known}", plural(tally.imported, "dead letter")));
    all
}

async fn import(
    client: &ApiClient,
    path: &str,
    file: &Path,
    tally: &mut ImportCounts,
) -> Result<()> {
    let mut chunks = Chunks::new(open(file)?);
    while let Some(chunk) = chunks.next().context("cannot read the input")? {
        let lines = chunk.lines();
        let sent = send(client, path, &chunk).await.and_then(|reply| reply.parse::<ImportCounts>());
        // The gateway counts lines from the start of each request.
        let new =
            sent.with_context(|| format!("in lines {lines}, counted from the first of them"))?;
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
        bail!("no input on stdin; pass a file");
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

//! `bezoar dead import`: imports what `bezoar dead export` wrote.

mod chunks;

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use bezoar_gateway::api_types::Imported;
use http::{HeaderMap, HeaderValue, header};

use self::chunks::{Chunk, Chunks};
use crate::{
    client::{ApiClient, ApiReply, ClientError, Retry, encode},
    humanize::{count, plural},
    output, reason,
};

/// How long to retry while the gateway is busy or unreachable. It skips lines that it already has, so that sending
/// them again is harmless.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the gateway ends the text about an invalid line.
const NOTHING: &str = "; nothing was imported";

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

/// Whether no line was taken.
fn is_empty(counts: &Imported) -> bool {
    counts.imported == 0 && counts.known_already == 0
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let path = format!("/v1/imports?reason={}", encode(&arguments.reason));
    let mut tally = Imported::default();
    let all = import(client, &path, &arguments.file, &mut tally).await;
    if arguments.json {
        output::print(&format!("{}\n", serde_json::to_string(&tally)?))?;
    }
    if all.is_ok() || !is_empty(&tally) {
        let known = match tally.known_already {
            0 => String::new(),
            1 => ", skipped 1 that is already here".to_owned(),
            known => format!(", skipped {} that are already here", count(known)),
        };
        let before = if all.is_ok() { "" } else { "before the error: " };
        output::say(&format!("{before}imported {}{known}", plural(tally.imported, "dead letter")));
    }
    all
}

async fn import(client: &ApiClient, path: &str, file: &Path, tally: &mut Imported) -> Result<()> {
    let mut chunks = Chunks::new(open(file)?);
    while let Some(chunk) = chunks.next().context("cannot read the input")? {
        let sent = send(client, path, &chunk).await.and_then(|reply| reply.parse::<Imported>());
        let new = sent.map_err(|error| refused(error, file, &chunk, tally))?;
        tally.imported += new.imported;
        tally.known_already += new.known_already;
    }
    Ok(())
}

/// Says where in the file the error is. The gateway counts lines from the start of each request, and imports all of a
/// request or nothing.
fn refused(error: ClientError, file: &Path, chunk: &Chunk, before: &Imported) -> anyhow::Error {
    let name = if file.as_os_str() == "-" { "stdin".into() } else { file.display().to_string() };
    let ClientError::Refused(problem) = &error else { return error.into() };
    match (problem.line, problem.detail()) {
        (Some(line), Some(detail)) => {
            let why = detail.strip_prefix(&format!("line {line}: ")).unwrap_or(detail);
            let why = why.strip_suffix(NOTHING).unwrap_or(why);
            let nothing = if is_empty(before) { NOTHING } else { "" };
            anyhow!("{name}:{}: {}{nothing}", chunk.line(line), output::printable(why))
        }
        _ if matches!(problem.status.as_u16(), 400 | 404 | 409 | 422) => {
            anyhow::Error::new(error).context(format!("in lines {} of {name}", chunk.lines()))
        }
        _ => error.into(),
    }
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

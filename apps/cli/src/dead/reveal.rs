//! `bezoar dead reveal`: reveals sensitive content, with a reason.

mod revealed;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use bezoar::DeadLetterId;
use bezoar_gateway::api_types::{RevealPart, RevealRequest};

pub(super) use self::revealed::{Revealed, is_text};
use super::abbreviation::Abbreviated;
use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    complete, humanize, output,
    private_file::{Existing, PrivateFile},
    reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of the dead letter, as shown by `bezoar dead list`
    #[arg(value_parser = super::dead_letter::id, add = complete::dead_letters())]
    id: Abbreviated<DeadLetterId>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Reveal the body; this is the default
    #[arg(long)]
    body: bool,
    /// Reveal the header values
    #[arg(long)]
    headers: bool,
    /// Reveal the error texts of its attempts
    #[arg(long)]
    details: bool,
    /// Write to a new file that only you can read
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print the gateway's JSON instead of text, with the body in base64
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let parts = arguments.parts();
    let existing = if arguments.force { Existing::Replaced } else { Existing::Refused };
    // Make sure that the file can be written before anything is revealed.
    let file = arguments.output.as_ref().map(|path| PrivateFile::begin(path, existing));
    let file = file.transpose()?;
    let id = arguments.id.clone().resolve(client).await?;
    let reply = ask(client, id, &arguments.reason, parts.clone()).await?;
    if parts == [RevealPart::Body] && !arguments.json {
        return body(&Revealed::read(&reply)?.body()?, file);
    }
    let text = match arguments.json {
        true => format!("{}\n", reply.json()?.get()),
        false => Revealed::read(&reply)?.text()?,
    };
    match file {
        Some(file) => keep(file, text.as_bytes()),
        None if arguments.json => output::print_json(&reply).map(drop),
        None => output::print(&text).map(drop),
    }
}

/// Requests parts of a dead letter.
pub(super) async fn ask(
    client: &ApiClient,
    id: DeadLetterId,
    reason: &str,
    what: Vec<RevealPart>,
) -> Result<ApiReply, ClientError> {
    let path = path(["v1", "dead-letters", &id.to_string(), "reveal"]);
    client.reveal(&path, &RevealRequest { reason: reason.to_owned(), what }).await
}

impl Arguments {
    fn parts(&self) -> Vec<RevealPart> {
        let all = [
            (RevealPart::Body, self.body),
            (RevealPart::Headers, self.headers),
            (RevealPart::Details, self.details),
        ];
        let parts: Vec<_> = all.into_iter().filter_map(|(part, it)| it.then_some(part)).collect();
        if parts.is_empty() { vec![RevealPart::Body] } else { parts }
    }
}

/// Writes the body unchanged, unless it is binary and stdout is a terminal.
fn body(body: &[u8], file: Option<PrivateFile>) -> Result<()> {
    if let Some(file) = file {
        return keep(file, body);
    }
    let is_terminal = io::stdout().is_terminal();
    let size = humanize::plural(body.len() as u64, "byte");
    match (is_terminal, body.is_empty()) {
        (_, true) => {
            output::say("the body is empty");
            Ok(())
        }
        (true, _) if !is_text(body) => {
            bail!("the body is binary ({size}); write it to a file with --output FILE")
        }
        (true, _) if !body.ends_with(b"\n") => write(&[body, b"\n"].concat()),
        _ => write(body),
    }
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the result"),
    }
}

fn keep(mut file: PrivateFile, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).context("cannot write the file")?;
    file.finish()?;
    output::say(&format!("wrote {}", humanize::plural(bytes.len() as u64, "byte")));
    Ok(())
}

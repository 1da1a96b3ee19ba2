//! `bezoar dead export`: writes dead letters as JSON lines, bodies included.

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use bezoar_gateway::api_types::ExportRequest;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use super::filter::Filter;
use crate::{
    client::{ApiClient, Download},
    humanize::plural,
    output,
    private_file::{Existing, PrivateFile},
    reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Write to a new file that only you can read [default: stdout, unless it is a terminal]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

/// Where the export is written.
enum ExportTarget {
    File(PrivateFile),
    Stdout(io::Stdout),
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let mut target = ExportTarget::choose(&arguments)?;
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let filter = arguments.filter.resolve(client).await?.request();
    let wanted = ExportRequest { reason: arguments.reason, filter };
    let mut lines = ExportedLines::default();
    let copied = tokio::select! {
        copied = copy(client, &wanted, &mut target, &mut lines) => copied,
        _ = interrupts.recv() => Err(anyhow!("interrupted")),
    };
    let number = plural(lines.number, "dead letter");
    copied.with_context(|| format!("the export is incomplete, it ended after {number}"))?;
    target.finish()?;
    output::say(&format!("exported {number}"));
    Ok(())
}

async fn copy(
    client: &ApiClient,
    wanted: &ExportRequest,
    target: &mut ExportTarget,
    lines: &mut ExportedLines,
) -> Result<()> {
    let mut download: Download = client.download("/v1/exports", wanted).await?;
    while let Some(piece) = download.next().await? {
        lines.take(&piece);
        if !target.write(&piece)? {
            return Ok(());
        }
    }
    if lines.is_cut {
        bail!("the last line is cut off");
    }
    Ok(())
}

/// Counts lines, and shows the count on a terminal.
struct ExportedLines {
    number: u64,
    is_cut: bool,
    bar: ProgressBar,
}

impl Default for ExportedLines {
    fn default() -> Self {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { number: 0, is_cut: false, bar }
    }
}

impl ExportedLines {
    fn take(&mut self, piece: &[u8]) {
        self.number += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.is_cut = piece.last().map_or(self.is_cut, |byte| *byte != b'\n');
        self.bar.set_message(plural(self.number, "dead letter"));
    }
}

impl Drop for ExportedLines {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl ExportTarget {
    /// Chooses the target, before anything is exported.
    fn choose(arguments: &Arguments) -> Result<Self> {
        match &arguments.output {
            Some(path) => {
                let existing = if arguments.force { Existing::Replaced } else { Existing::Refused };
                PrivateFile::begin(path, existing).map(Self::File)
            }
            None if io::stdout().is_terminal() => {
                bail!("refusing to print bodies to a terminal; use --output FILE")
            }
            None => Ok(Self::Stdout(io::stdout())),
        }
    }

    /// `false` if the reader has closed the pipe.
    fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        let written = match self {
            Self::File(file) => file.write_all(bytes),
            Self::Stdout(stdout) => match stdout.write_all(bytes) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                written => written,
            },
        };
        written.context("cannot write the export").map(|()| true)
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::File(file) => file.finish(),
            Self::Stdout(mut stdout) => match stdout.flush() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                flushed => flushed.context("cannot write the export"),
            },
        }
    }
}

//! Lines from an input to the gateway: read ahead a little, several batches on their way, in bounded memory.

use std::io::{self, Read};

use anyhow::{Context as _, Result, anyhow};
use futures_util::{StreamExt, stream::FuturesOrdered};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{Receiver, channel},
};

use super::{
    Sender,
    body_source::BodySource,
    lines::{LineBatch, LineReader},
    progress::SendProgress,
    summary::SendSummary,
};

/// How many batches are on their way at once.
const IN_FLIGHT: usize = 4;

/// Sends every line, and tells what became of them.
pub(super) async fn run(sender: &Sender<'_>, source: BodySource, json: bool) -> Result<()> {
    let (input, size) = source.open()?;
    let mut batches = read_ahead(input);
    let mut summary = SendSummary::new(SendProgress::new(size), json);
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut on_their_way = FuturesOrdered::new();
    let mut is_open = true;
    while is_open || !on_their_way.is_empty() {
        tokio::select! {
            Some(outcome) = on_their_way.next() => {
                summary.record(outcome)?;
                is_open &= !summary.is_stopped();
            }
            batch = batches.recv(), if is_open && on_their_way.len() < IN_FLIGHT => match batch {
                Some(Ok(lines)) => {
                    summary.started(&lines);
                    on_their_way.push_back(sender.deliver(lines));
                }
                Some(Err(error)) => {
                    summary.stop(anyhow!(error).context("cannot read on"));
                    is_open = false;
                }
                None => {
                    summary.ended();
                    is_open = false;
                }
            },
            _ = interrupts.recv() => {
                // The second time somebody means it: what is on its way is then not known.
                if summary.is_interrupted() {
                    summary.abandon();
                    break;
                }
                summary.interrupt();
                is_open = false;
            }
        }
    }
    summary.conclude()
}

/// Reads in a thread of its own: one that waits for input must keep neither requests nor the end of the program
/// waiting, and the runtime's own threads would. It ends with the input, or when nobody takes what it read.
fn read_ahead(input: impl Read + Send + 'static) -> Receiver<io::Result<LineBatch>> {
    let (sender, receiver) = channel(1);
    std::thread::spawn(move || {
        let mut reader = LineReader::new(input);
        while let Some(read) = reader.next().transpose() {
            let is_last = read.is_err();
            if sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

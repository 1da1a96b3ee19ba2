//! Sends the lines of an input: reads ahead, keeps several batches in flight, and uses bounded memory.

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

/// How many batches are in flight at once.
const IN_FLIGHT: usize = 4;

/// Sends every line and prints a summary.
pub(super) async fn run(sender: &Sender<'_>, source: BodySource, json: bool) -> Result<()> {
    let (input, size) = source.open()?;
    let mut batches = read_ahead(input);
    let mut summary = SendSummary::new(SendProgress::new(size), json);
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut in_flight = FuturesOrdered::new();
    let mut is_open = true;
    while is_open || !in_flight.is_empty() {
        tokio::select! {
            Some(outcome) = in_flight.next() => {
                summary.record(outcome)?;
                is_open &= !summary.is_stopped();
            }
            batch = batches.recv(), if is_open && in_flight.len() < IN_FLIGHT => match batch {
                Some(Ok(lines)) => {
                    summary.started(&lines);
                    in_flight.push_back(sender.deliver(lines));
                }
                Some(Err(error)) => {
                    summary.stop(anyhow!(error).context("cannot read the input"));
                    is_open = false;
                }
                None => {
                    summary.ended();
                    is_open = false;
                }
            },
            _ = interrupts.recv() => {
                // The second Ctrl-C does not wait: the outcome of batches in flight is then unknown.
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

/// Reads on a separate thread: waiting for input must block neither requests nor the end of the program, which the
/// runtime's blocking threads would. It ends with the input, or when the receiver is dropped.
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

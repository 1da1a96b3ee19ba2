//! Asks questions on a terminal; never without one.

use std::{
    io::{self, IsTerminal, Write},
    thread,
};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// Whether there is a terminal to ask on.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a yes. Ctrl-C and end of input mean no.
pub(crate) async fn confirm(question: &str) -> Result<bool> {
    let answer = ask(&format!("{question} [y/N] ")).await?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a line, trimmed; empty on Ctrl-C.
pub(crate) async fn ask(question: &str) -> Result<String> {
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut stderr = io::stderr();
    write!(stderr, "{question}")
        .and_then(|()| stderr.flush())
        .context("cannot write to the terminal")?;
    tokio::select! {
        line = line() => Ok(line?.trim().to_owned()),
        _ = interrupts.recv() => {
            let _ = writeln!(stderr);
            Ok(String::new())
        }
    }
}

/// Reads on a separate thread, which does not keep the program from exiting.
async fn line() -> Result<String> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // The receiver is gone after Ctrl-C.
        let _ = sender.send(io::stdin().read_line(&mut line).map(|_| line));
    });
    receiver.await.context("the terminal was closed")?.context("cannot read the answer")
}

//! Questions to a person at a terminal. Without one nobody is asked.

use std::{
    io::{self, IsTerminal, Write},
    thread,
};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// Whether there is somebody who can be asked.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether somebody says yes. Ctrl-C, and the end of the input, mean no.
pub(crate) async fn confirm(question: &str) -> Result<bool> {
    let answer = ask(&format!("{question} [y/N] ")).await?;
    Ok(matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// What somebody types, without spaces around it; nothing on Ctrl-C.
pub(crate) async fn ask(question: &str) -> Result<String> {
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let mut stderr = io::stderr();
    write!(stderr, "{question}").and_then(|()| stderr.flush()).context("cannot ask")?;
    tokio::select! {
        line = line() => Ok(line?.trim().to_owned()),
        _ = interrupts.recv() => {
            let _ = writeln!(stderr);
            Ok(String::new())
        }
    }
}

/// Read in a thread of its own, which does not keep the program from ending.
async fn line() -> Result<String> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // Who no longer waits was interrupted.
        let _ = sender.send(io::stdin().read_line(&mut line).map(|_| line));
    });
    receiver.await.context("nobody answers")?.context("cannot read the answer")
}

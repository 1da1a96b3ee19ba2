//! Running a program to its end, but not for ever.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

/// What the program printed; an error says how it failed, with the last line of its complaints.
pub fn run(command: &mut Command, limit: Duration, scratch: &Path) -> Result<String> {
    let complaints = scratch.join("stderr.txt");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&complaints)?)
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let output = read_until(&mut child, limit)?;
    let status = child.wait()?;
    ensure!(status.success(), "{status}: {}", last_line(&complaints));
    Ok(output)
}

/// A program's output ends when it does, so waiting for the one is waiting for the other.
fn read_until(child: &mut Child, limit: Duration) -> Result<String> {
    let stdout = child.stdout.take().context("its output is not piped")?;
    match read_in_background(stdout).recv_timeout(limit) {
        Ok(output) => Ok(output?),
        Err(_) => {
            child.kill()?;
            child.wait()?;
            bail!("it did not end within {} s", limit.as_secs())
        }
    }
}

/// The thread ends with the program, which the caller kills if need be.
fn read_in_background(mut stdout: ChildStdout) -> mpsc::Receiver<std::io::Result<String>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = String::new();
        let read = stdout.read_to_string(&mut output);
        // Nobody listens any more after a timeout.
        let _ = sender.send(read.map(|_| output));
    });
    receiver
}

fn last_line(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String> {
        let scratch = tempfile::tempdir().unwrap();
        run(Command::new("sh").args(["-c", script]), limit, scratch.path())
    }

    #[test]
    fn output_is_returned() {
        assert_eq!(shell("echo hello", Duration::from_secs(10)).unwrap(), "hello\n");
    }

    #[test]
    fn failure_carries_the_last_complaint() {
        let error = shell("echo one >&2; echo two >&2; exit 3", Duration::from_secs(10));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("3") && error.ends_with("two"), "{error}");
    }

    #[test]
    fn endless_program_is_stopped() {
        let error = shell("exec sleep 60", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("did not end"), "{error}");
    }
}

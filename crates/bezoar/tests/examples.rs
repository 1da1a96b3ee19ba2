//! Every example runs to its end, as a program of its own, and prints what it promises.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long an example may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program that cargo built of an example, beside this test.
fn example(name: &str) -> Command {
    let folder = std::env::current_exe().unwrap();
    let folder = folder.ancestors().nth(2).unwrap().join("examples");
    let program: PathBuf = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "cargo builds examples with tests: {}", program.display());
    Command::new(program)
}

/// What it prints until it ends well.
fn printed(name: &str) -> Vec<String> {
    let mut child = example(name).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let reading = std::thread::spawn(move || lines.collect());
    ended(&mut child, name);
    reading.join().unwrap()
}

fn ended(child: &mut Child, name: &str) {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{name}: {status}");
            return;
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{name} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn typed_errors() {
    let mut printed = printed("typed_errors");
    printed.sort();
    assert_eq!(
        printed,
        [
            "attempt 1 failed: permanent (implausible)",
            "dead letter: non-retryable error: permanent",
            "stored a result of A7",
        ]
    );
}

#[cfg(feature = "sqlite")]
#[test]
fn scheduled() {
    let printed = printed("scheduled");
    let [confirmed, later, last] = &printed[..] else { panic!("three messages: {printed:?}") };
    assert!(confirmed.ends_with("s: confirmed (order-17)"), "{confirmed}");
    assert!(later.ends_with("s: later (later)"), "{later}");
    assert!(last.ends_with("s: last (last)"), "{last}");
}

#[test]
fn virtual_time() {
    let expected = "passed: 2 messages, 1 dead letter, minutes of retries in no time";
    assert_eq!(printed("virtual_time"), [expected]);
}

/// The example of the README runs until it is told to stop.
#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn lab() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = example("lab");
    let mut child = command.current_dir(&folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "stored a result on attempt 1");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    ended(&mut child, "lab");
    assert!(Path::new(&folder.path().join("lab.db")).exists());
}

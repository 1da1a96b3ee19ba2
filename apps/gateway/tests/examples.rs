//! The example runs to its end, as a program of its own, and prints what it promises.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn a_worker_with_the_operators_api_embedded() {
    let folder = std::env::current_exe().unwrap();
    let program = folder.ancestors().nth(2).unwrap().join("examples/embedded");
    assert!(program.exists(), "cargo builds examples with tests: {}", program.display());
    let ran = Command::new("timeout").arg("60").arg(program).output().unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{printed}{}", String::from_utf8_lossy(&ran.stderr));
    let expected = [
        "the operator's API listens",
        "dead letter: non-retryable error: permanent",
        "stored a result",
        "replayed 1, completed 1",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

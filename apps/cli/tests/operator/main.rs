//! The operator's commands, run as their user would, against a gateway that answers as the test wants.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod abbreviations;
mod audit;
mod causes;
mod connection;
mod dead;
mod discard;
mod edit;
mod fake;
mod lines;
mod queues;
mod replay;
mod replays;
mod reveal;
mod routes;
mod send;
mod terminal;
mod top;
mod transfer;

use assert_cmd::Command;

use fake::Gateway;

const TOKEN: &str = "bzr_CANARY";

/// The program in an empty folder, with nothing of ours in its environment.
fn bezoar(gateway: &Gateway) -> Command {
    let mut command = alone();
    command.env("BEZOAR_URL", gateway.url()).env("BEZOAR_TOKEN", TOKEN);
    command
}

/// The same without a gateway.
fn alone() -> Command {
    let mut command = Command::cargo_bin("bezoar").unwrap();
    command.env_remove("BEZOAR_URL").env_remove("BEZOAR_TOKEN").env_remove("RUST_LOG");
    command.current_dir(std::env::temp_dir()).timeout(std::time::Duration::from_secs(60));
    command
}

/// What a command wrote: its exit code, data and words.
#[derive(Debug)]
struct Ended {
    code: i32,
    data: String,
    words: String,
}

fn run(command: &mut Command) -> Ended {
    let ended = end(command);
    assert!(!format!("{ended:?}").contains("CANARY"), "a secret was shown: {ended:?}");
    ended
}

/// The same of a command that may show bodies as its data, and nowhere else.
fn run_revealing(command: &mut Command) -> Ended {
    let ended = end(command);
    assert!(!ended.words.contains("CANARY"), "a secret was told: {ended:?}");
    ended
}

fn end(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ended {
        code: output.status.code().unwrap(),
        data: text(&output.stdout),
        words: text(&output.stderr),
    }
}

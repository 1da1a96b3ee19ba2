//! The demo, run as its user would.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use assert_cmd::Command;

fn bezoar() -> Command {
    Command::cargo_bin("bezoar").unwrap()
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

#[test]
fn the_demo_tells_of_retries_an_outage_dead_letters_and_a_replay_and_adds_up() {
    let story = stdout(bezoar().args(["demo", "--seconds", "6"]));
    let expected = [
        "retry 1 of 3 in",
        "the archive goes down",
        "the archive is back",
        "set aside: Failed to deserialize message",
        "set aside: non-retryable error: permanent",
        "are replayed, each once",
        "✓ it adds up",
    ];
    for part in expected {
        assert!(story.contains(part), "{part:?} is missing in:\n{story}");
    }
    assert!(!story.contains("MSH|"), "a body was shown:\n{story}");
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_is_accepted() {
    let refused = bezoar().args(["demo", "--seconds", "0"]).assert().code(2);
    let words = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(words.contains("1..=86400"), "{words}");
    bezoar().arg("demmo").assert().code(2);
}

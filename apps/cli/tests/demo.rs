//! The demo, run as its user would, with another terminal beside it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{BufRead, BufReader, Lines},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

fn bezoar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bezoar"));
    command.env_remove("BEZOAR_URL").env_remove("BEZOAR_TOKEN").current_dir(std::env::temp_dir());
    command
}

/// A demo that runs, and where its gateway is.
struct Demo {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    story: String,
    url: String,
    token_file: PathBuf,
}

impl Demo {
    /// Starts it and reads up to the line that others copy to their terminal.
    fn start(seconds: u32) -> Self {
        let mut command = bezoar();
        command.args(["demo", "--seconds", &seconds.to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let export = lines.by_ref().map(Result::unwrap).find(|line| line.contains("export"));
        let export = export.expect("it says how to reach it");
        let between = |start, end| {
            export.split_once(start).and_then(|(_, rest)| Some(rest.split_once(end)?.0)).unwrap()
        };
        let url = between("BEZOAR_URL=", " ").to_owned();
        let token_file = between("cat '", "'").into();
        Self { child, lines, story: String::new(), url, token_file }
    }

    /// Reads on to a line with this in it.
    fn until(&mut self, part: &str) {
        while !self.story.contains(part) {
            let line = self.lines.next();
            let Some(line) = line else { panic!("{part:?} is missing in:\n{}", self.story) };
            self.story += &(line.unwrap() + "\n");
        }
    }

    /// A command from another terminal.
    fn other_terminal(&self, arguments: &[&str]) -> String {
        let token = std::fs::read_to_string(&self.token_file).unwrap();
        let mut command = bezoar();
        command.args(arguments).env("BEZOAR_URL", &self.url).env("BEZOAR_TOKEN", token);
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {words}\n{}", self.story);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits for its end, which leaves nothing behind, and returns the sum that it printed.
    fn end(mut self) -> (String, [u64; 4]) {
        self.until("it adds up");
        self.story.extend(self.lines.map(|line| line.unwrap() + "\n"));
        assert!(self.child.wait().unwrap().success(), "{}", self.story);
        assert!(!self.token_file.parent().unwrap().exists(), "its folder is still there");
        let sum = self.story.lines().find(|line| line.starts_with("accepted")).unwrap();
        let numbers = sum.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<_>>();
        (self.story, numbers.try_into().expect("accepted, delivered, waiting and dead"))
    }
}

#[test]
fn the_demo_tells_of_retries_an_outage_dead_letters_and_a_replay_and_adds_up() {
    let mut demo = Demo::start(4);
    demo.until("dead-lettered");
    let queues: Value = serde_json::from_str(&demo.other_terminal(&["queues", "--json"])).unwrap();
    let names: Vec<_> = queues.as_array().unwrap().iter().map(|row| &row["queue"]).collect();
    assert_eq!(names, ["appointments", "lab"]);
    let dead = demo.other_terminal(&["dead", "list"]);
    assert!(dead.contains("lab.result") && dead.contains("unknown-analyte"), "{dead}");
    let id = dead.lines().nth(1).and_then(|line| line.split(' ').next()).unwrap();
    let shown = demo.other_terminal(&["dead", "show", id]);
    assert!(shown.contains("problems/unknown-analyte"), "{shown}");
    demo.other_terminal(&["send", "lab", "--body", "by hand"]);
    demo.other_terminal(&["health"]);

    let (story, [accepted, delivered, waiting, dead]) = demo.end();
    assert_eq!(accepted, delivered + waiting + dead, "{story}");
    assert!(accepted > 20 && delivered > 20, "{story}");
    for part in [
        "503, retry after 1 s",
        "accepted on delivery ",
        "the archive goes down",
        "breaker opened: messages wait without using up retries",
        "the archive is up again",
        "all breakers are closed",
        "an operator replays",
        "0 failed again",
    ] {
        assert!(story.contains(part), "{part:?} is missing in:\n{story}");
    }
    assert!(!story.contains("unobtainium"), "a body was shown:\n{story}");
}

#[test]
fn ctrl_c_ends_the_demo_with_a_sum_and_no_traces() {
    let mut demo = Demo::start(600);
    demo.until("accepted");
    let id = demo.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let (story, [accepted, delivered, waiting, dead]) = demo.end();
    assert!(story.contains("stopping"), "{story}");
    assert_eq!(accepted, delivered + waiting + dead, "{story}");
}

#[test]
fn a_usage_error_is_exit_code_2_and_says_what_is_accepted() {
    let refused = bezoar().args(["demo", "--seconds", "0"]).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(words.contains("1..=86400"), "{words}");
    assert_eq!(bezoar().arg("demmo").output().unwrap().status.code(), Some(2));
}

//! A second process: this test program again.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use bezoar_core::{ErrorKind, SubscribeOptions, Transport};
use bezoar_sqlite::{Options, SqliteTransport};

use super::{send_and_handle::send_and_handle, sql::run, support::*};

const TASK: &str = "BEZOAR_TEST_TASK";

/// Runs a task of another test in a second process.
#[tokio::test]
#[ignore = "the other process of other tests, which start it"]
async fn other_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    if tokio::time::timeout(PATIENCE, work_on(&task)).await.is_err() {
        std::process::exit(1); // exits immediately, because a pending read would keep the process alive
    }
}

async fn work_on(task: &str) {
    match task.split_once(' ').unwrap() {
        ("open", path) => try_to_open(path),
        ("send_and_handle", path) => send_and_handle_until_told(path).await,
        ("fill", path) => fill_until_refused(path).await,
        ("obey", path) => obey(path).await,
        _ => panic!("unknown task {task}"),
    }
}

/// The arguments that make this program run only that test.
const ARGUMENTS: [&str; 4] =
    ["--exact", "faults::child_process::other_process", "--ignored", "--nocapture"];

fn try_to_open(path: &str) {
    match SqliteTransport::open(Options::new(path)) {
        Ok(_) => println!("\nopened"),
        Err(error) => println!("\n{:?} {}", error.kind, everything(&error)),
    }
}

async fn send_and_handle_until_told(path: &str) {
    let options = Options { poll: Duration::from_millis(5), ..Options::new(path) };
    let told = tokio::task::spawn_blocking(wait_to_be_told);
    let handled = |id: String| println!("\nhandled {id}");
    send_and_handle(open_transport(options).await, "other", handled, || told.is_finished()).await;
}

async fn fill_until_refused(path: &str) {
    let transport = open_transport(Options::new(path)).await;
    let mut refused = 0;
    for number in 0..2_000 {
        refused += usize::from(!send_and_say(&transport, &number.to_string()).await);
        if refused == 5 {
            break;
        }
    }
    assert_eq!(refused, 5, "the limit was not reached");
    println!("\nrefused");
    tokio::task::spawn_blocking(wait_to_be_told).await.unwrap();
    assert!(send_and_say(&transport, "afterwards").await);
    println!("\ndone");
}

/// Executes the command in each line, and prints each result.
async fn obey(path: &str) {
    let transport = open_transport(Options::new(path)).await;
    println!("\nready");
    for order in std::io::stdin().lines().map(Result::unwrap) {
        let done = match order.split_once(' ').unwrap() {
            ("send", id) => send(&transport, &message(id, noise(2_000))).await,
            ("receive", max) => {
                match transport.subscribe(&queue(), SubscribeOptions::default()).await {
                    Ok(it) => it.receive(max.parse().unwrap(), Duration::ZERO).await.map(drop),
                    Err(error) => Err(error),
                }
            }
            _ => panic!("unknown order {order}"),
        };
        match done {
            Ok(()) => println!("\nanswer ok"),
            Err(error) => println!("\nanswer {:?} {}", error.kind, everything(&error)),
        }
    }
}

/// Sends a message, prints whether it was accepted, and returns that.
async fn send_and_say(transport: &SqliteTransport, id: &str) -> bool {
    let result = send(transport, &message(id, noise(2_000))).await.map_err(|error| error.kind);
    match &result {
        Ok(()) => println!("\naccepted {id}"),
        Err(ErrorKind::OutcomeUnknown) => println!("\nunknown {id}"),
        Err(kind) => assert_eq!(*kind, ErrorKind::Full),
    }
    result.is_ok()
}

fn wait_to_be_told() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A process that runs `other_process`.
pub(crate) struct Other {
    process: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Other {
    pub(crate) fn start(task: &str) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), task)
    }

    /// Starts the process with these environment variables.
    pub(crate) fn start_with(task: &str, variables: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.envs(variables.iter().copied());
        Self::spawn(command, task)
    }

    /// Sends a line and returns the answer.
    pub(crate) fn answer_to(&mut self, order: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{order}").unwrap();
        let mut lines = self.output.as_mut().unwrap().lines().map(Result::unwrap);
        lines.find_map(|line| line.strip_prefix("answer ").map(str::to_owned)).unwrap()
    }

    /// Starts the process with a limit of 512 KiB per file. A program that ignores the signal gets
    /// an error.
    pub(crate) fn start_limited(task: &str) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["-c", "trap '' XFSZ; ulimit -S -f 512; exec \"$0\" \"$@\""]);
        shell.arg(std::env::current_exe().unwrap());
        Self::spawn(shell, task)
    }

    fn spawn(mut command: Command, task: &str) -> Self {
        command.args(ARGUMENTS).env(TASK, task);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Self { process, input, output: output.map(BufReader::new) }
    }

    /// Collects the messages that the process handled, until it ends.
    pub(crate) fn hear(&mut self, handled: Arc<Mutex<Vec<String>>>) -> thread::JoinHandle<()> {
        let output = self.output.take().unwrap();
        thread::spawn(move || {
            for line in output.lines().map(Result::unwrap) {
                if let Some(id) = line.strip_prefix("handled ") {
                    handled.lock().unwrap().push(id.to_owned());
                }
            }
        })
    }

    /// The output up to a line.
    pub(crate) fn told_until(&mut self, last: &str) -> Vec<String> {
        let lines = self.output.as_mut().unwrap().lines().map(Result::unwrap);
        lines.take_while(|line| line != last).collect()
    }

    pub(crate) fn lift_limit(&mut self) {
        let process = self.process.id().to_string();
        run(Command::new("prlimit").args(["--pid", &process, "--fsize=unlimited"]));
        writeln!(self.input.as_mut().unwrap(), "go on").unwrap();
    }

    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// The output of the other process when it runs without permissions: as `nobody` if this is root, who
/// may write anywhere.
pub(crate) fn as_nobody(task: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let reachable = folder(); // other users may have no access to the build folder
    let copy = reachable.path().join("program");
    let mut command = if root {
        run(Command::new("cp").arg(program).arg(&copy)); // not copied by this process, because a concurrent fork would keep it open
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        command
    } else {
        Command::new(program)
    };
    let output = run(command.args(ARGUMENTS).env(TASK, task));
    let said = String::from_utf8(output.stdout).unwrap();
    let answer = said.lines().find(|line| line.starts_with("Unusable") || *line == "opened");
    answer.unwrap_or_else(|| panic!("{said}")).to_owned()
}

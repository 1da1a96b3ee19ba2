//! The first minutes of a new user: a gateway in a folder, and commands beside it that find it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// The program in a folder, with nothing of ours in its environment.
fn bezoar(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bezoar"));
    for name in ["BEZOAR_URL", "BEZOAR_TOKEN", "BEZOAR_CONFIG", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments.split_whitespace());
    command
}

/// A gateway that is killed with the test.
struct Running {
    child: Child,
    words: BufReader<std::process::ChildStderr>,
}

impl Running {
    /// Starts a gateway, and waits until it listens.
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let words = BufReader::new(child.stderr.take().unwrap());
        let mut gateway = Self { child, words };
        gateway.wait_for("listening on http://");
        gateway
    }

    /// Waits until it says this.
    fn wait_for(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.words.read_line(&mut line).unwrap() > 0, "it never said {words:?}");
        }
        line
    }

    fn interrupt(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[track_caller]
fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_find_a_gateway_without_a_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address().to_string();
    let here = |arguments: &str| {
        let mut command = bezoar(folder.path(), arguments);
        command.env("BEZOAR_SERVER__LISTEN", &address);
        command
    };
    let _gateway = Running::start(here("up"));
    let id = succeeded(here("send default --body x").output().unwrap());
    assert!(!id.trim().is_empty());
    let queues = succeeded(here("queues").output().unwrap());
    assert!(queues.contains("default") && queues.contains("no route"), "{queues}");
}

#[test]
fn commands_find_a_gateway_with_the_packaged_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/bezoar.toml");
    let text = std::fs::read_to_string(packaged).unwrap();
    let text = text.replace("127.0.0.1:8420", &free_address().to_string());
    std::fs::write(folder.path().join("bezoar.toml"), text).unwrap();
    let _gateway = Running::start(bezoar(folder.path(), "up"));
    for arguments in ["send default --body x", "queues", "health", "whoami", "dead list"] {
        succeeded(bezoar(folder.path(), arguments).output().unwrap());
    }
    assert!(folder.path().join("token").exists(), "the token is beside the store");
}

#[test]
fn routes_can_be_given_without_a_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free_address().to_string();
    let here = |arguments: &str| {
        let mut command = bezoar(folder.path(), arguments);
        command.env("BEZOAR_SERVER__LISTEN", &address);
        command
    };
    let to = format!("http://{}/", endpoint.local_addr().unwrap());
    let _gateway = Running::start(here(&format!("up --route results={to}")));
    succeeded(here("send results --body hello").output().unwrap());
    let (mut delivery, _) = endpoint.accept().unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"hello") {
        let mut buffer = [0; 1024];
        let length = delivery.read(&mut buffer).unwrap();
        assert!(length > 0, "the whole message arrives");
        received.extend_from_slice(&buffer[..length]);
    }
    delivery.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let bad = here("check --route results").output().unwrap();
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
}

#[test]
fn ctrl_c_says_which_deliveries_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = TcpListener::bind("127.0.0.1:0").unwrap();
    let configuration = format!(
        "server.listen = \"{}\"\n[[route]]\nname = \"slow\"\nfrom = \"default\"\nto = \"http://{}/\"\n",
        free_address(),
        endpoint.local_addr().unwrap()
    );
    std::fs::write(folder.path().join("bezoar.toml"), configuration).unwrap();
    let mut gateway = Running::start(bezoar(folder.path(), "up"));
    succeeded(bezoar(folder.path(), "send default --body x").output().unwrap());
    let (mut delivery, _) = endpoint.accept().unwrap();
    assert!(delivery.read(&mut [0; 16]).unwrap() > 0, "it is being delivered");
    gateway.interrupt();
    let said = gateway.wait_for("stopping: waiting up to");
    assert!(said.contains("for 1 message in flight (slow: 1)"), "{said}");
    gateway.interrupt();
    gateway.wait_for("aborted");
    assert!(gateway.child.wait().unwrap().success());
}

/// The first commands of the README's section about the gateway, as they are there.
fn commands_of_the_readme() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let section = text.split("## Run it as a gateway").nth(1).unwrap();
    let mut commands: Vec<String> = Vec::new();
    for line in section.lines() {
        let is_open = commands.last().is_some_and(|it| it.matches('\'').count() % 2 == 1);
        match line.strip_prefix("$ ") {
            Some(command) => commands.push(command.to_owned()),
            None if is_open => *commands.last_mut().unwrap() += &format!("\n{line}"),
            None => (),
        }
    }
    commands
}

#[test]
fn the_readme_delivers_a_message_with_three_commands() {
    let folder = tempfile::tempdir().unwrap();
    let (address, endpoint) = (free_address().to_string(), free_address().port().to_string());
    let programs = Path::new(env!("CARGO_BIN_EXE_bezoar")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let commands = commands_of_the_readme();
    let run = |number: usize, begin: &str| {
        let line = commands[number].replace("3000", &endpoint);
        assert!(line.starts_with(begin), "{line}");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {line}")]).current_dir(folder.path());
        for name in ["BEZOAR_URL", "BEZOAR_TOKEN", "BEZOAR_CONFIG", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.env("PATH", &path).env("BEZOAR_SERVER__LISTEN", &address);
        command
    };
    let mut endpoint = run(0, "python3 -c").stdout(Stdio::piped()).spawn().unwrap();
    let mut received = BufReader::new(endpoint.stdout.take().unwrap());
    let _gateway = Running::start(run(1, "bezoar up"));
    succeeded(run(2, "bezoar send").output().unwrap());
    let mut line = String::new();
    received.read_line(&mut line).unwrap();
    endpoint.kill().unwrap();
    endpoint.wait().unwrap();
    assert_eq!(line, "{\"patient\": 7}\n");
}

//! The program and what reads its output: nobody, a full disk, a pipe that is closed, a terminal.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/mod.rs"]
mod support;

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use http::StatusCode;
use support::{PATIENCE, client::Client, program::Program};
use tempfile::TempDir;

fn bezoar(folder: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
    command.current_dir(folder).env_remove("RUST_LOG").env_remove("BEZOAR_CONFIG");
    command
}

/// A folder with a configuration that listens on a port that was just free.
fn folder(more: &str) -> (TempDir, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text =
        format!("[server]\nlisten = \"{address}\"\n[store]\nurl = \"sqlite:bezoar.db\"\n{more}");
    std::fs::write(folder.path().join("bezoar.toml"), text).unwrap();
    (folder, address)
}

/// A process that is killed if the test fails.
struct Killed(Child);

impl Killed {
    fn terminate(&self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the gateway answers.
async fn until_healthy(client: &Client) {
    let begun = Instant::now();
    let healthy = || async {
        let reply = client.try_call(http::Method::GET, "/healthz", &[], bytes::Bytes::new()).await;
        reply.is_some_and(|reply| reply.status == StatusCode::OK)
    };
    while !healthy().await {
        assert!(begun.elapsed() < PATIENCE, "it does not start");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() {
    let endpoint = refusing_endpoint();
    let route = format!("[[route]]\nname = \"lab\"\nfrom = \"lab\"\nto = \"http://{endpoint}\"\n");
    let (folder, address) = folder(&route);
    let child = bezoar(folder.path()).arg("up").stderr(Stdio::piped()).spawn().unwrap();
    let mut child = Killed(child);
    until_healthy(&Client::new(address, "")).await;
    let client = Client::of_folder(address, folder.path());
    let filling = async {
        while dropped(&client).await == 0.0 {
            let batch = "{\"body\": 1}\n".repeat(1_000).into();
            let kind = [("content-type", "application/x-ndjson")];
            let reply = client.post("/v1/queues/lab/batches", &kind, batch).await;
            assert_eq!(reply.status, StatusCode::ACCEPTED);
        }
    };
    tokio::time::timeout(PATIENCE, filling).await.expect("the pipe and the queue before it fill");
    until_healthy(&client).await;
    child.terminate();
    assert!(child.ended().success());
}

/// An endpoint that refuses every message, which is logged.
fn refusing_endpoint() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let refusal =
                "HTTP/1.1 422 Unprocessable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(refusal.as_bytes());
        }
    });
    address
}

async fn dropped(client: &Client) -> f64 {
    let metrics = client.get("/metrics").await.body;
    let text = String::from_utf8(metrics.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("bezoar_log_dropped_total "));
    line.expect("it is counted").parse().unwrap()
}

#[tokio::test]
async fn a_full_log_disk_stops_nothing() {
    let (folder, address) = folder("");
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = bezoar(folder.path());
    let mut child = Killed(command.arg("up").stdout(full()).stderr(full()).spawn().unwrap());
    until_healthy(&Client::new(address, "")).await;
    assert!(dropped(&Client::of_folder(address, folder.path())).await > 0.0);
    child.terminate();
    assert!(child.ended().success());
}

#[test]
fn a_closed_pipe_ends_commands_quietly() {
    let (folder, _) = folder("");
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--json"],
        &["config", "schema"],
        &["check"],
        &["provision"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = bezoar(folder.path()).args(arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn an_error_that_cannot_be_printed_is_still_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let arguments = ["config", "show", "--set", "server.listen=nowhere"];
    let status = bezoar(folder.path()).args(arguments).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(78));
}

#[test]
fn a_taken_port_is_the_only_thing_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("server.listen={}", taken.local_addr().unwrap());
    let output = bezoar(folder.path()).args(["up", "--set", &listen]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("bezoar: cannot listen on ") && said.lines().count() == 1, "{said}");
    let collector = "telemetry.otlp_endpoint=http://127.0.0.1:1";
    let mut command = bezoar(folder.path());
    let output = command.args(["up", "--set", &listen, "--set", collector]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("MeterProvider"), "{said}");
}

#[test]
fn on_a_terminal_the_banner_comes_first_and_the_log_is_coloured() {
    let folder = tempfile::tempdir().unwrap();
    let program = assert_cmd::cargo::cargo_bin("bezoar");
    let line = format!("exec '{}' up --set server.listen=127.0.0.1:0", program.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"]);
    command.current_dir(folder.path()).env("SHELL", "/bin/sh").env_remove("NO_COLOR");
    command.env_remove("BEZOAR_CONFIG").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut keys, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output)).map(Result::unwrap);
    let first = lines.next().unwrap();
    let stop = lines.find(|line| line.contains("press Ctrl-C")).is_some();
    std::io::Write::write_all(&mut keys, b"\x03").unwrap();
    let rest: Vec<_> = lines.collect();
    assert!(child.wait().unwrap().success());
    assert!(first.starts_with("bezoar ") && first.contains("listening on"), "{first}");
    assert!(stop && rest.iter().any(|line| line.contains("\u{1b}[")), "{rest:?}");
}

/// A resolver that never answers, as a library that is loaded before the system's.
fn hanging_resolver(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("hang.c"), folder.join("hang.so"));
    let text = "#include <unistd.h>\nint getaddrinfo(void *a, void *b, void *c, void *d) {\n\
                for (;;) pause();\n}\n";
    std::fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", "-fno-builtin", "-o"]).arg(&library).arg(&source);
    assert!(cc.status().unwrap().success());
    library
}

#[tokio::test]
async fn a_name_that_is_never_resolved_does_not_keep_the_program_from_ending() {
    let route = "[[route]]\nname = \"r\"\nfrom = \"lab\"\nto = \"http://endpoint.example/\"\n";
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "server.drain = \"500ms\"\nserver.listen = \"127.0.0.1:0\"\nstore.url = \"sqlite:bezoar.db\"\n{route}"
    );
    std::fs::write(folder.path().join("bezoar.toml"), text).unwrap();
    let mut command = bezoar(folder.path());
    command.arg("up").env("LD_PRELOAD", hanging_resolver(folder.path()));
    let program = Program::start(&mut command);
    let client = Client::of_folder(program.address, folder.path());
    let reply = client.post("/v1/queues/lab/messages", &[], "1".into()).await;
    assert_eq!(reply.status, StatusCode::ACCEPTED);
    client.until("lab", |queue| queue["in_flight"] == 1).await;
    let begun = Instant::now();
    assert!(program.stop().status.success());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

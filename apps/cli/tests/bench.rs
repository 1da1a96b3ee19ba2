//! The bench, run as its user would: small numbers, so that they are right and not that they are large.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

fn bezoar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bezoar"));
    command.env_remove("BEZOAR_URL").env_remove("BEZOAR_TOKEN");
    command
}

fn bench(command: &mut Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| report[name].as_u64().unwrap();
    let somewhere = count("delivered") + count("waiting") + count("dead");
    assert_eq!(count("accepted"), somewhere, "{report}");
    report
}

#[track_caller]
fn grows(report: &Value, name: &str) {
    let percentiles = ["p50", "p90", "p99", "p99_9", "max"].map(|p| report[name][p].as_f64());
    assert!(percentiles.is_sorted() && percentiles[0] > Some(0.0), "{report}");
}

#[test]
fn a_temporary_gateway_delivers_every_message() {
    let mut command = bezoar();
    let report = bench(command.args(["bench", "--messages", "300", "--connections", "8"]));
    for (name, expected) in [("accepted", 300), ("delivered", 300), ("repeated", 0), ("dead", 0)] {
        assert_eq!(report[name], expected, "{report}");
    }
    assert_eq!((&report["size_bytes"], &report["connections"]), (&1024.into(), &8.into()));
    assert!(report["accepted_per_second"].as_f64() > Some(0.0), "{report}");
    assert!(report["delivered_per_second"].as_f64() > Some(0.0), "{report}");
    grows(&report, "acceptance_ms");
    grows(&report, "arrival_ms");
}

#[test]
fn a_rate_is_kept() {
    let mut command = bezoar();
    let report = bench(command.args(["bench", "--seconds", "1", "--rate", "200", "--size", "64B"]));
    assert_eq!((&report["accepted"], &report["rate"]), (&200.into(), &200.into()), "{report}");
}

/// A gateway that somebody runs, in a folder of its own.
struct Running {
    child: Child,
    folder: tempfile::TempDir,
    url: String,
}

impl Running {
    fn start(routes: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bezoar.toml"), routes).unwrap();
        let address = free_address();
        let mut command = bezoar();
        command.arg("up").args(["--set", &format!("server.listen={address}")]);
        let child = command.current_dir(&folder).stderr(Stdio::null()).spawn().unwrap();
        let running = Self { child, folder, url: format!("http://{address}") };
        let started = Instant::now();
        while !running.bezoar().arg("health").output().unwrap().status.success() {
            assert!(started.elapsed() < Duration::from_secs(20), "it does not start");
        }
        running
    }

    fn bezoar(&self) -> Command {
        let mut command = bezoar();
        command.env("BEZOAR_URL", &self.url).current_dir(&self.folder);
        command
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_running_gateway_is_loaded_and_its_deliveries_arrive() {
    let endpoint = free_address();
    let running = Running::start(&format!(
        "[[route]]\nname = \"r\"\nfrom = \"q\"\nto = \"http://{endpoint}/\"\n\n[[queue]]\nname = \"idle\"\n"
    ));
    let load = ["bench", "--messages", "100", "--connections", "4"];

    let mut command = running.bezoar();
    let report = bench(command.args(load).args(["--queue", "q", "--listen", &endpoint]));
    assert_eq!(
        (&report["delivered"], &report["gateway"]),
        (&100.into(), &running.url.as_str().into())
    );
    grows(&report, "arrival_ms");

    let report = bench(running.bezoar().args(load).args(["--queue", "idle"]));
    assert_eq!((&report["delivered"], &report["waiting"]), (&0.into(), &100.into()), "{report}");
    assert!(report["arrival_ms"].is_null(), "{report}");

    let unknown = running.bezoar().args(load).args(["--queue", "gone"]).output().unwrap();
    let words = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(words.contains("known queues: idle, q"), "{words}");
}

#[test]
fn a_usage_error_is_exit_code_2() {
    for arguments in [
        ["--size", "1XB"],
        ["--size", "1GiB"],
        ["--connections", "0"],
        ["--rate", "0"],
        ["--listen", "127.0.0.1:0"],
    ] {
        let refused = bezoar().arg("bench").args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
    }
}

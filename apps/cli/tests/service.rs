//! The program as a service: what systemd is told, how it ends, and what packages bring along.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use bezoar_gateway::config::{self, Loaded, Sources};
use tempfile::TempDir;

fn bezoar() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bezoar"));
    command.env_remove("BEZOAR_URL").env_remove("BEZOAR_TOKEN");
    command
}

fn socket(address: &SocketAddr) -> UnixDatagram {
    let socket = UnixDatagram::bind_addr(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

fn heard(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).expect("it tells in time");
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

/// Starts a gateway, which is told to stop once it is ready, as systemd would.
fn check_notified(socket: &UnixDatagram, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = up(&folder, "127.0.0.1:0").env("NOTIFY_SOCKET", name).spawn().unwrap();
    assert_eq!(heard(socket), "READY=1");
    signal(&child, "-TERM");
    assert_eq!(heard(socket), "STOPPING=1");
    assert!(child.wait().unwrap().success());
}

fn up(folder: &TempDir, listen: &str) -> Command {
    let mut command = bezoar();
    command.arg("up").args(["--set", &format!("server.listen={listen}")]);
    command.current_dir(folder).stderr(Stdio::null());
    command
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

#[test]
fn systemd_is_notified_when_it_is_ready_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let address = SocketAddr::from_pathname(&path).unwrap();
    check_notified(&socket(&address), path.to_str().unwrap());
}

#[test]
fn systemd_is_notified_on_an_abstract_socket() {
    let name = format!("bezoar-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    check_notified(&socket(&address), &format!("@{name}"));
}

#[test]
fn a_bad_configuration_is_exit_code_78_and_never_reports_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = socket(&SocketAddr::from_pathname(&path).unwrap());
    // Others could reach it, and there is no token.
    let mut command = up(&folder, "0.0.0.0:0");
    let status = command.env("NOTIFY_SOCKET", &path).status().unwrap();
    assert_eq!(status.code(), Some(78));
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 16]).is_err());
}

fn packaged(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("packaging").join(name)).unwrap()
}

/// A certificate and its key.
const PEM: &str = include_str!("../../gateway/src/endpoint/tests/localhost.pem");

fn load(text: String) -> Loaded {
    let sources =
        Sources { file: Some((PathBuf::from("bezoar.toml"), text)), ..Sources::default() };
    let secret = |source: &config::SecretSource| match source.to_string().as_str() {
        "env:AZURE_STORAGE_CONNECTION_STRING" => Ok("UseDevelopmentStorage=true".to_owned()),
        file if file.ends_with(".pem") => Ok(PEM.to_owned()),
        _ => Ok(format!("whsec_{}", "QUJD".repeat(8))),
    };
    let loaded = config::load(&sources, &secret).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    loaded
}

#[test]
fn the_example_configuration_loads_as_it_is_and_with_all_of_it() {
    let text = packaged("bezoar.toml");
    assert!(load(text.clone()).config.routes.is_empty());
    // A setting follows its # at once, words do not.
    let setting = |line: &str| {
        line.strip_prefix('#')
            .filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '['))
            .unwrap_or(line)
            .to_owned()
            + "\n"
    };
    let all = load(text.lines().map(setting).collect());
    // Values are shown at their keys, tables at what is in them.
    let is_table = |key: &config::Key| {
        use config::Kind::{Headers, Named, Retry, Table, Tables};
        matches!(key.kind, Table | Tables | Named | Retry | Headers)
    };
    // A store has the keys of a file or those of a database.
    let of_database = |key: &config::Key| key.parent() == "store" && key.transport.is_some();
    for key in config::keys().iter().filter(|key| !is_table(key) && !of_database(key)) {
        let is_there = |index: &str, transport: &str| {
            let path = key.path.replace("[]", index).replace('*', transport);
            let origin = all.origin(&path).map(ToString::to_string).unwrap_or_default();
            origin.starts_with("bezoar.toml:")
        };
        let transports = ["hospital", "lab", "clinic", "ward", "archive"];
        let is_there = |index| transports.iter().any(|transport| is_there(index, transport));
        assert!(is_there("[0]") || is_there("[1]"), "{} is not in the example", key.path);
    }
}

#[test]
fn the_example_shows_the_defaults() {
    let text = packaged("bezoar.toml");
    for key in config::keys() {
        let Some(default) = key.default.filter(|default| !default.is_empty()) else { continue };
        // What only makes sense in another form is an example there.
        if ["store.url", "network.private"].contains(&key.path) || key.path.contains(".retry.") {
            continue;
        }
        let (plain, quoted) =
            (format!("{} = {default}", key.name()), format!("{} = \"{default}\"", key.name()));
        assert!(text.contains(&plain) || text.contains(&quoted), "{} = {default}", key.path);
    }
}

#[test]
fn the_service_stops_later_than_deliveries_and_does_not_restart_on_a_bad_configuration() {
    let unit = packaged("bezoar.service");
    for line in ["Type=notify", "RestartPreventExitStatus=78", "TimeoutStopSec=90s"] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }
    assert!(config::Config::default().server.drain < Duration::from_secs(60));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = bezoar().args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("BEZOAR_COMPLETE"), "{shell}");
    }
}

#[test]
fn every_command_gets_a_page_of_the_manual() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    assert!(bezoar().arg("man").arg(&pages).status().unwrap().success());
    for page in ["bezoar.1", "bezoar-up.1", "bezoar-dead-list.1", "bezoar-bench.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(!pages.join("bezoar-man.1").exists());
}

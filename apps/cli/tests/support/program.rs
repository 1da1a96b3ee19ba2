//! A process that says where it listens, and all that it says.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread::JoinHandle,
};

use super::PATIENCE;

/// Before the address, in the first line that has one.
const LISTENS: &str = "listening on http://";

/// A process that listens.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

/// What a process said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// `bezoar up` in this folder, with nothing of ours in its environment.
    pub(crate) fn up(folder: &Path) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
        command.arg("up").current_dir(folder).env_remove("RUST_LOG").env_remove("BEZOAR_CONFIG");
        Self::start(&mut command)
    }

    /// Any process that says on stderr where it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (announce, announced) = mpsc::channel();
        let stdout = keep(child.stdout.take().unwrap(), |_| ());
        let stderr = keep(child.stderr.take().unwrap(), move |line| {
            if let Some((_, rest)) = line.split_once(LISTENS) {
                let address =
                    rest.split([',', ' ', '"', '\n']).next().and_then(|it| it.parse().ok());
                let _ = announce.send(address.expect("an address")); // only the first is waited for
            }
        });
        let address = announced.recv_timeout(PATIENCE).expect("it says where it listens");
        Self { child, address, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// A figure of `/proc/PID/status`: `VmRSS` is the memory it uses, `VmHWM` the most it ever used.
    pub(crate) fn memory_mib(&self, figure: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
        line.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// SIGKILL: it has no last words.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.end();
    }

    /// SIGTERM: it ends as it likes.
    pub(crate) fn stop(mut self) -> Said {
        self.signal("-TERM");
        self.end()
    }

    /// SIGHUP: it reads its configuration again.
    pub(crate) fn reload(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn end(&mut self) -> Said {
        let status = self.child.wait().unwrap();
        let said = |reader: &mut Option<JoinHandle<String>>| reader.take().unwrap().join().unwrap();
        Said { status, stdout: said(&mut self.stdout), stderr: said(&mut self.stderr) }
    }
}

/// A test that failed leaves nothing running.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end, so that the process never waits for us.
fn keep(
    from: impl std::io::Read + Send + 'static,
    hear: impl Fn(&str) + Send + 'static,
) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut reader, mut all, mut line) = (BufReader::new(from), String::new(), Vec::new());
        while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line);
            hear(&text);
            all.push_str(&text);
            line.clear();
        }
        all
    })
}

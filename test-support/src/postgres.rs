//! A private PostgreSQL server: on a free port of this machine, with its data in a folder of its own; and a PgBouncer in
//! front of it.
//!
//! PostgreSQL refuses to run as root, so root starts it as the user `postgres`, whom its package creates.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::ports;

/// Debian's folder of PostgreSQL's versions.
const VERSIONS: &str = "/usr/lib/postgresql";
/// How long a server may take to start on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A crash of the machine is not tested, so that nothing needs to wait for the disk.
const SETTINGS: [&str; 5] = [
    "fsync=off",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "log_min_messages=fatal",
];
/// Ends the server when its standard input is closed: also if this process is killed.
const SCRIPT: &str = r#""$@" & server=$!; cat; kill -KILL $server"#;

/// Numbers the servers of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A server with the user `postgres`, who needs no password. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// Starts a server of the newest version that is installed, with its data in a new folder of `/tmp`.
    ///
    /// # Errors
    ///
    /// As [`start_in`](Self::start_in).
    pub fn start() -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bezoar-postgres-{}-{number}", std::process::id());
        Self::start_in(&env::temp_dir().join(name))
    }

    /// Starts an empty server with its data in `folder`, and waits until it answers. The folder is removed with it.
    ///
    /// # Errors
    ///
    /// If it does not start; the error ends with what it printed.
    pub fn start_in(folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        if is_root()? {
            run(Command::new("chown").arg("postgres").arg(folder))?;
        }
        let [port] = ports::free()?;
        let mut postgres = Self { folder: folder.to_owned(), port, server: None };
        let initdb = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"];
        run(program("initdb")?
            .args(initdb)
            .args(["--locale=C.UTF-8", "--pgdata"])
            .arg(postgres.data())
            .stdout(Stdio::null()))?;
        postgres.restart()?;
        Ok(postgres)
    }

    /// The URL of its database `postgres`.
    pub fn url(&self) -> String {
        self.url_through(self.port)
    }

    /// The same for a proxy on this machine that leads to the server.
    pub fn url_through(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server with all its processes, as a crash would.
    ///
    /// # Errors
    ///
    /// If the shell cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            // Its other processes end by themselves when they notice.
            let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            if let Some(pid) = pid.lines().next() {
                let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
            }
            drop(server.stdin.take());
            server.wait()?;
        }
        Ok(())
    }

    /// Starts the server again after it was killed, on the same port, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not start; the error ends with what it printed.
    pub fn restart(&mut self) -> Result<()> {
        let output = self.folder.join("output.txt");
        let started = Instant::now();
        loop {
            self.spawn(&output)?;
            while !answers(self.port)
                && !self.has_ended(&output)
                && started.elapsed() < READY_WITHIN
            {
                sleep(POLL_INTERVAL);
            }
            if answers(self.port) {
                return Ok(());
            }
            // Processes of the killed server may still use its memory.
            self.kill()?;
            if started.elapsed() > READY_WITHIN {
                bail!("PostgreSQL did not start; it printed:\n{}", fs::read_to_string(output)?);
            }
        }
    }

    fn spawn(&mut self, output: &Path) -> Result<()> {
        let output = File::create(output)?;
        let mut command = Command::new("sh");
        let server = program("postgres")?;
        command.args(["-c", SCRIPT, "sh"]).arg(server.get_program()).args(server.get_args());
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).current_dir("/");
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        self.server = Some(command.spawn().context("cannot start sh")?);
        Ok(())
    }

    fn has_ended(&self, output: &Path) -> bool {
        fs::read_to_string(output).is_ok_and(|printed| printed.contains("FATAL"))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A PgBouncer in front of a server, with a connection of the server per transaction. It is killed when this value is
/// dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    bouncer: Child,
}

impl PgBouncer {
    /// Starts a PgBouncer in front of `server`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(server: &Postgres) -> Result<Self> {
        let [port] = ports::free()?;
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 8\nmax_client_conn = 400\n",
            server.port
        );
        let file = server.folder.join("pgbouncer.ini");
        fs::write(&file, settings)?;
        let mut command = Command::new("sh");
        let bouncer = as_user(Path::new("/usr/sbin/pgbouncer"))?;
        command.args(["-c", SCRIPT, "sh"]).arg(bouncer.get_program()).args(bouncer.get_args());
        command.arg("-q").arg(file).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let bouncer = Self { port, bouncer: command.spawn().context("cannot start sh")? };
        let started = Instant::now();
        while !answers(port) {
            ensure!(started.elapsed() < READY_WITHIN, "PgBouncer did not start");
            sleep(POLL_INTERVAL);
        }
        Ok(bouncer)
    }

    /// The URL of the database `postgres` through it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        drop(self.bouncer.stdin.take());
        let _ = self.bouncer.wait();
    }
}

/// A program of the newest version that is installed.
fn program(name: &str) -> Result<Command> {
    let versions = fs::read_dir(VERSIONS).context("PostgreSQL is not installed")?;
    let number = |entry: std::io::Result<fs::DirEntry>| {
        entry.ok()?.file_name().to_str()?.parse::<u32>().ok()
    };
    let newest = versions.filter_map(number).max().context("PostgreSQL is not installed")?;
    as_user(&Path::new(VERSIONS).join(newest.to_string()).join("bin").join(name))
}

/// A program, as another user if this one is root.
fn as_user(program: &Path) -> Result<Command> {
    if !is_root()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program).current_dir("/");
    Ok(command)
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("cannot run id")?;
    Ok(id.stdout.starts_with(b"0\n"))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Whether a server lets sessions begin, which it does not while it recovers from a crash.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let parameters = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(parameters.len() + 4).unwrap_or_default();
        stream.write_all(&[&length.to_be_bytes()[..], parameters].concat())?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        Ok(kind[0])
    };
    ask().is_ok_and(|kind| kind == b'R') // authentication; an error would be an E
}

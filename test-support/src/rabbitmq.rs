//! A private RabbitMQ broker: on free ports of this machine, with its data in a folder of its own.
//!
//! A broker counts as started when every one of its ports answers. The management API answers before AMQP does, and
//! AMQP before TLS: a test that waits for one of them and uses another fails on a busy machine.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Write},
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

/// Not the programs on the PATH, which are wrappers that change to another user.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";
/// How long a broker may take to start on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a port may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Another process may take a port between our choice and the broker's start.
const START_TRIES: u32 = 3;
/// `guest:guest`, a user who may log in from this machine only.
const CREDENTIALS: &str = "Z3Vlc3Q6Z3Vlc3Q=";
const LOG_LINES: usize = 30;
/// After how long the broker sends an expired message on again if no queue confirmed it. Its default of three minutes
/// is what retries would wait for after a node of a cluster is lost; the guide recommends ten seconds.
const EXPIRED_AGAIN_MILLIS: u32 = 10_000;

/// Numbers the brokers of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// How a broker is to be started.
#[derive(Debug, Clone)]
pub struct BrokerSetup {
    /// The root folder of the system that RabbitMQ is installed in: `/`, or a folder with a system of its own, which
    /// only root can use.
    pub system: PathBuf,
    /// The folder for data and logs, as the broker sees it. Removed with the broker, unless a test fails.
    pub folder: PathBuf,
    /// Whether to listen for TLS: with `ca.pem`, `server.pem` and `server.key` of [`outside`](Self::outside), and for
    /// clients that have a certificate.
    pub tls: bool,
}

impl BrokerSetup {
    /// A broker of this machine's own RabbitMQ.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { system: "/".into(), folder: folder.into(), tls: false }
    }

    /// A broker of the version under test: `BEZOAR_TEST_RABBITMQ_ROOT` is the root folder of the system that RabbitMQ is
    /// installed in, `/` unless it is set.
    pub fn under_test(name: &str) -> Self {
        let system = env::var_os("BEZOAR_TEST_RABBITMQ_ROOT").unwrap_or_else(|| "/".into());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A path that exists in every system.
        let folder = format!("/tmp/bezoar-{name}-{}-{number}", std::process::id());
        Self { system: system.into(), ..Self::new(folder) }
    }

    /// The broker's folder, as other programs see it.
    pub fn outside(&self) -> PathBuf {
        match self.folder.strip_prefix("/") {
            Ok(inside) => self.system.join(inside),
            Err(_) => self.folder.clone(),
        }
    }

    /// A program of that system. Its `/proc` is mounted only for the program, so nothing stays
    /// mounted.
    fn command(&self, program: &str) -> Command {
        if self.system == Path::new("/") {
            return Command::new(program);
        }
        let mut command = Command::new("unshare");
        let script = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;
        command.args(["--mount", "sh", "-c", script]).arg(&self.system).arg(program);
        command
    }
}

/// A broker with the management plugin. It is killed when this value is dropped.
#[derive(Debug)]
pub struct RabbitMq {
    setup: BrokerSetup,
    ports: Ports,
    /// Erlang's port mapper, which the server needs until it ends.
    mapper: Option<Child>,
    server: Option<Child>,
    /// More lines of the configuration file, for a node of a cluster.
    more_configuration: String,
    keep_folder: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ports {
    amqp: u16,
    tls: u16,
    management: u16,
    /// The port for other nodes and `rabbitmqctl`.
    distribution: u16,
    mapper: u16,
}

impl Ports {
    pub(crate) fn free() -> Result<Self> {
        let [amqp, tls, management, distribution, mapper] = ports::free()?;
        Ok(Self { amqp, tls, management, distribution, mapper })
    }

    /// Free ports for another node that uses the same port mapper.
    pub(crate) fn of_next_node(self) -> Result<Self> {
        Ok(Self { mapper: self.mapper, ..Self::free()? })
    }
}

impl RabbitMq {
    /// Starts an empty broker, and waits until all its ports answer.
    ///
    /// # Errors
    ///
    /// If it does not start; the error ends with the last lines of its log.
    pub fn start(setup: BrokerSetup) -> Result<Self> {
        let mut broker = Self::new(setup, Ports::default());
        for tries_left in (0..START_TRIES).rev() {
            match broker.start_on_free_ports() {
                Ok(()) => return Ok(broker),
                Err(_) if tries_left > 0 && broker.has_ended() => broker.kill_all(),
                Err(failed) => {
                    broker.keep_folder = true;
                    return Err(failed);
                }
            }
        }
        bail!("RabbitMQ could not be started")
    }

    pub(crate) fn new(setup: BrokerSetup, ports: Ports) -> Self {
        let (mapper, server, more_configuration) = (None, None, String::new());
        Self { setup, ports, mapper, server, more_configuration, keep_folder: false }
    }

    /// The AMQP URL.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.amqp)
    }

    /// The AMQP URL for TLS. The host is `localhost`, as in a certificate.
    pub fn tls_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.ports.tls)
    }

    /// The URL of the management API.
    pub fn management_url(&self) -> String {
        format!("http://guest:guest@127.0.0.1:{}", self.ports.management)
    }

    /// Host and port for AMQP.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.amqp)
    }

    /// The path of a file in the broker's folder, as other programs see it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.setup.outside().join(name)
    }

    /// The setup that the broker was started with.
    pub fn setup(&self) -> &BrokerSetup {
        &self.setup
    }

    /// Kills the server at once, and every process that it has started. Its data stay.
    pub fn kill(&mut self) {
        kill_group(&mut self.server);
    }

    /// Starts a killed server again, with its data, and waits until all its ports answer.
    ///
    /// # Errors
    ///
    /// If it does not start; the error ends with the last lines of its log.
    pub fn restart(&mut self) -> Result<()> {
        self.launch()?;
        self.await_ready()
    }

    /// Starts the server, and does not wait for it.
    pub(crate) fn launch(&mut self) -> Result<()> {
        self.kill();
        let mut server = self.setup.command(&format!("{PROGRAMS}/rabbitmq-server"));
        server.envs(self.environment());
        self.server = Some(self.spawn(&mut server, "server.txt")?);
        Ok(())
    }

    /// Waits until all ports answer.
    pub(crate) fn await_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.is_ready() {
            if self.has_ended() || started.elapsed() > READY_WITHIN {
                self.keep_folder = true;
                bail!("RabbitMQ did not start; its log ends with:\n{}", self.last_log_lines());
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The answer of the management API to `GET path`.
    ///
    /// # Errors
    ///
    /// If it does not answer with 200.
    pub fn management(&self, path: &str) -> Result<String> {
        let mut stream = connect(self.ports.management)?;
        write!(stream, "GET {path} HTTP/1.0\r\nAuthorization: Basic {CREDENTIALS}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.ends_with("200 OK"), "GET {path} answered {status:?}");
        Ok(body.to_owned())
    }

    /// Runs `rabbitmqctl` with these arguments.
    ///
    /// # Errors
    ///
    /// If it fails.
    pub fn control(&self, arguments: &[&str]) -> Result<()> {
        self.run("rabbitmqctl", arguments)
    }

    /// Runs a program of RabbitMQ on this node.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = self.setup.command(&format!("{PROGRAMS}/{program}"));
        command.args(arguments).envs(self.environment()).stdout(Stdio::null());
        let status = command.status().with_context(|| format!("cannot start {program}"))?;
        ensure!(status.success(), "{program} {arguments:?} ended with {status}");
        Ok(())
    }

    fn start_on_free_ports(&mut self) -> Result<()> {
        self.ports = Ports::free()?;
        self.write_configuration()?;
        self.launch_mapper()?;
        self.restart()
    }

    pub(crate) fn launch_mapper(&mut self) -> Result<()> {
        let mut mapper = self.setup.command("epmd");
        let port = self.ports.mapper.to_string();
        mapper.args(["-address", "127.0.0.1", "-port", &port, "-relaxed_command_check"]);
        self.mapper = Some(self.spawn(&mut mapper, "epmd.txt")?);
        Ok(())
    }

    /// The name of the node in its cluster.
    pub fn node_name(&self) -> String {
        format!("bezoar-{}@localhost", self.ports.amqp)
    }

    /// Adds lines to the configuration file.
    pub(crate) fn configure(&mut self, lines: &str) {
        self.more_configuration.push_str(lines);
    }

    pub(crate) fn write_configuration(&self) -> Result<()> {
        let (folder, within) = (self.setup.outside(), self.setup.folder.display());
        for part in ["home", "mnesia", "log"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let Ports { amqp, tls, management, .. } = self.ports;
        let mut configuration = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
             management.tcp.ip = 127.0.0.1\n\
             management.tcp.port = {management}\n"
        );
        if self.setup.tls {
            configuration += &format!(
                "listeners.ssl.1 = 127.0.0.1:{tls}\n\
                 ssl_options.cacertfile = {within}/ca.pem\n\
                 ssl_options.certfile = {within}/server.pem\n\
                 ssl_options.keyfile = {within}/server.key\n\
                 ssl_options.verify = verify_peer\n\
                 ssl_options.fail_if_no_peer_cert = true\n"
            );
        }
        configuration += &self.more_configuration;
        fs::write(folder.join("rabbitmq.conf"), configuration)?;
        fs::write(folder.join("enabled_plugins"), "[rabbitmq_management].\n")?;
        Ok(())
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let within = |name: &str| self.setup.folder.join(name).display().to_string();
        let Ports { amqp, distribution, mapper, .. } = self.ports;
        vec![
            ("HOME", within("home")),
            ("RABBITMQ_NODENAME", self.node_name()),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
            ("RABBITMQ_CONFIG_FILE", within("rabbitmq.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", within("enabled_plugins")),
            ("RABBITMQ_MNESIA_BASE", within("mnesia")),
            ("RABBITMQ_LOG_BASE", within("log")),
            ("RABBITMQ_PID_FILE", within("rabbit.pid")),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_NODE_PORT", amqp.to_string()),
            ("RABBITMQ_DIST_PORT", distribution.to_string()),
            ("ERL_EPMD_PORT", mapper.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!(
                    "-kernel inet_dist_use_interface {{127,0,0,1}} \
                     -rabbit dead_letter_worker_publisher_confirm_timeout {EXPIRED_AGAIN_MILLIS}"
                ),
            ),
        ]
    }

    /// In a process group of its own, so that it can be killed with every process that it starts.
    fn spawn(&self, command: &mut Command, log: &str) -> Result<Child> {
        let log = self.file("log").join(log);
        let log = File::options().create(true).append(true).open(log)?;
        let errors = log.try_clone()?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
    }

    fn is_ready(&self) -> bool {
        speaks_amqp(self.ports.amqp)
            && (!self.setup.tls || connect(self.ports.tls).is_ok())
            && self.management("/api/overview").is_ok()
    }

    fn has_ended(&mut self) -> bool {
        let ended = |child: &mut Option<Child>| {
            child.as_mut().is_some_and(|child| child.try_wait().ok().flatten().is_some())
        };
        ended(&mut self.server) || ended(&mut self.mapper)
    }

    fn last_log_lines(&self) -> String {
        let log = fs::read_to_string(self.file("log/server.txt")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn kill_all(&mut self) {
        self.kill();
        kill_group(&mut self.mapper);
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        self.kill_all();
        if !self.keep_folder && !std::thread::panicking() {
            let _ = fs::remove_dir_all(self.setup.outside());
        }
    }
}

fn kill_group(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = child.wait();
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(stream)
}

/// Whether the server answers the protocol header with a method frame.
fn speaks_amqp(port: u16) -> bool {
    let ask = || -> io::Result<u8> {
        let (mut stream, mut kind) = (connect(port)?, [0]);
        stream.write_all(b"AMQP\0\0\x09\x01")?;
        stream.read_exact(&mut kind)?;
        Ok(kind[0])
    };
    ask().is_ok_and(|kind| kind == 1)
}

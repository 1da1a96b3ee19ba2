//! A RabbitMQ broker with the management plugin.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{debian, ports};

/// Not the one on the PATH: that wrapper changes to another user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const READY_WITHIN: Duration = Duration::from_secs(60);
/// `guest:guest`, who may come from this machine only.
const CREDENTIALS: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// Where a RabbitMQ is installed.
pub(crate) struct Installation {
    /// A folder with a system of its own; `None` is this machine.
    system: Option<PathBuf>,
}

impl Installation {
    /// What this machine's distribution has.
    pub(crate) fn of_this_machine() -> Self {
        Self { system: None }
    }

    /// RabbitMQ 4.0, fetched if it is not there. It fails where it cannot be had.
    pub(crate) fn four(root: &Path) -> Result<Self> {
        Ok(Self { system: Some(debian::with_rabbitmq(root)?) })
    }

    /// A program of that system. It sees processes, which is gone with it: nothing stays mounted.
    fn command(&self, program: &str) -> Command {
        let Some(system) = &self.system else { return Command::new(program) };
        let mut command = Command::new("unshare");
        let script = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;
        command.args(["--mount", "sh", "-c", script]).arg(system).arg(program);
        command
    }

    /// The folder for a broker's files, as we see it and as the broker sees it.
    fn folders(&self, root: &Path) -> (PathBuf, PathBuf) {
        let name = format!("rabbitmq-{}", std::process::id());
        match &self.system {
            Some(system) => (system.join("tmp").join(&name), Path::new("/tmp").join(name)),
            None => {
                let folder = root.join("target/servers").join(name);
                (folder.clone(), folder)
            }
        }
    }
}

/// A broker that lives as long as this value.
pub(crate) struct RabbitMq {
    installation: Installation,
    folder: PathBuf,
    /// The same folder, as the broker sees it.
    within: PathBuf,
    amqp: u16,
    management: u16,
    /// The server before its port mapper, which it needs to the end.
    children: Vec<Child>,
}

impl RabbitMq {
    /// Starts a broker with nothing in it, and waits until it answers.
    pub(crate) fn start(root: &Path, installation: Installation) -> Result<Self> {
        let [amqp, management, distribution, mapper] = ports::free(4)?[..] else {
            bail!("four ports were asked for");
        };
        let (folder, within) = installation.folders(root);
        write_configuration(&folder, amqp, management)?;
        let children = Vec::new();
        let mut broker = Self { installation, folder, within, amqp, management, children };
        let mut epmd = broker.installation.command("epmd");
        epmd.args([
            "-address",
            "127.0.0.1",
            "-port",
            &mapper.to_string(),
            "-relaxed_command_check",
        ]);
        let epmd = broker.spawn(&mut epmd, "epmd.txt")?;
        broker.children.push(epmd);
        let mut server = broker.installation.command(SERVER);
        server.envs(broker.settings(distribution, mapper));
        let server = broker.spawn(&mut server, "server.txt")?;
        broker.children.insert(0, server);
        broker.wait_until_ready()?;
        Ok(broker)
    }

    /// Where tests find it.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let (amqp, management) = (self.amqp, self.management);
        let system = self.installation.system.as_deref().unwrap_or(Path::new("/"));
        vec![
            ("BEZOAR_TEST_AMQP", format!("amqp://guest:guest@127.0.0.1:{amqp}/%2f")),
            ("BEZOAR_TEST_AMQP_MANAGEMENT", format!("http://guest:guest@127.0.0.1:{management}")),
            ("BEZOAR_TEST_RABBITMQ_ROOT", system.display().to_string()),
        ]
    }

    fn settings(&self, distribution: u16, mapper: u16) -> Vec<(&'static str, String)> {
        let within = |name: &str| self.within.join(name).display().to_string();
        vec![
            ("HOME", within("home")),
            ("RABBITMQ_NODENAME", format!("bezoar-{}@localhost", std::process::id())),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
            ("RABBITMQ_CONFIG_FILE", within("rabbitmq.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", within("enabled_plugins")),
            ("RABBITMQ_MNESIA_BASE", within("mnesia")),
            ("RABBITMQ_LOG_BASE", within("log")),
            ("RABBITMQ_PID_FILE", within("rabbit.pid")),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_NODE_PORT", self.amqp.to_string()),
            ("RABBITMQ_DIST_PORT", distribution.to_string()),
            ("ERL_EPMD_PORT", mapper.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}".to_owned(),
            ),
        ]
    }

    /// In a process group of its own, so that it can be ended with all that it starts.
    fn spawn(&self, command: &mut Command, log: &str) -> Result<Child> {
        let log = File::create(self.folder.join("log").join(log))?;
        let errors = log.try_clone()?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        while !self.answers() {
            let ended = self.children.iter_mut().find_map(|it| it.try_wait().ok().flatten());
            if ended.is_some() || started.elapsed() > READY_WITHIN {
                bail!("RabbitMQ did not start; look into {}", self.folder.join("log").display());
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn answers(&self) -> bool {
        let ask = || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.management))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            write!(
                stream,
                "GET /api/overview HTTP/1.0\r\nAuthorization: Basic {CREDENTIALS}\r\n\r\n"
            )?;
            let mut start = vec![0; 15];
            stream.read_exact(&mut start)?;
            Ok(start)
        };
        let amqp = TcpStream::connect(("127.0.0.1", self.amqp)).is_ok();
        amqp && ask().is_ok_and(|start| start.ends_with(b"200 OK"))
    }
}

impl Drop for RabbitMq {
    fn drop(&mut self) {
        for child in &mut self.children {
            let group = format!("-{}", child.id());
            // Nothing in it outlives the run, so it need not end gently.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write_configuration(folder: &Path, amqp: u16, management: u16) -> Result<()> {
    for part in ["home", "mnesia", "log"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let configuration = format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
         management.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {management}\n"
    );
    fs::write(folder.join("rabbitmq.conf"), configuration)?;
    fs::write(folder.join("enabled_plugins"), "[rabbitmq_management].\n")?;
    Ok(())
}

//! A broker of one's own, to be killed and started again with what it has stored.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep},
};

/// Not the one on the PATH: that wrapper changes to another user.
const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
const READY_WITHIN: Duration = Duration::from_secs(90);

/// A broker that lives as long as this value, and whose data do.
pub(crate) struct Server {
    folder: PathBuf,
    /// For AMQP, for other nodes, for the port mapper.
    ports: [u16; 3],
    mapper: Child,
    broker: Option<Child>,
    _turn: MutexGuard<'static, ()>,
}

/// One broker at a time: a machine that is busy with several makes all of them late.
static TURN: Mutex<()> = Mutex::const_new(());

impl Server {
    pub(crate) async fn start(name: &str) -> Self {
        let turn = TURN.lock().await;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("{name}-{}", std::process::id()));
        for part in ["home", "mnesia", "log"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let ports = free_ports();
        let listen = format!("listeners.tcp.1 = 127.0.0.1:{}\n", ports[0]);
        fs::write(folder.join("rabbitmq.conf"), listen).unwrap();
        fs::write(folder.join("enabled_plugins"), "[].\n").unwrap();
        let port = ports[2].to_string();
        let mut mapper = Command::new("epmd");
        mapper.args(["-address", "127.0.0.1", "-port", &port, "-relaxed_command_check"]);
        let mapper = spawn(&mut mapper, &folder.join("log/mapper.txt"));
        let mut server = Self { folder, ports, mapper, broker: None, _turn: turn };
        server.begin().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports[0])
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// Starts it, and waits until it takes connections.
    pub(crate) async fn begin(&mut self) {
        let mut broker = Command::new(SERVER);
        broker.envs(self.settings());
        self.broker = Some(spawn(&mut broker, &self.folder.join("log/server.txt")));
        let started = Instant::now();
        while TcpStream::connect(self.address()).await.is_err() {
            assert!(started.elapsed() < READY_WITHIN, "see {}", self.folder.display());
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Kills it at once, with everything that it has started.
    pub(crate) fn kill(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            kill_group(&mut broker);
        }
    }

    /// Has the broker do something, and waits until it did.
    pub(crate) async fn control(&self, arguments: &[&str]) {
        let mut control = tokio::process::Command::new(CONTROL);
        control.args(arguments).envs(self.settings()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(control.status().await.unwrap().success(), "{arguments:?}");
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let within = |name: &str| self.folder.join(name).display().to_string();
        let [amqp, nodes, mapper] = self.ports;
        vec![
            ("HOME", within("home")),
            ("RABBITMQ_NODENAME", format!("faults-{amqp}@localhost")),
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
            ("RABBITMQ_CONFIG_FILE", within("rabbitmq.conf")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", within("enabled_plugins")),
            ("RABBITMQ_MNESIA_BASE", within("mnesia")),
            ("RABBITMQ_LOG_BASE", within("log")),
            ("RABBITMQ_PID_FILE", within("rabbit.pid")),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_NODE_PORT", amqp.to_string()),
            ("RABBITMQ_DIST_PORT", nodes.to_string()),
            ("ERL_EPMD_PORT", mapper.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1}".to_owned(),
            ),
        ]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        kill_group(&mut self.mapper);
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// In a process group of its own, so that it can be ended with all that it starts.
fn spawn(command: &mut Command, log: &std::path::Path) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    let errors = log.try_clone().unwrap();
    command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
    command.spawn().unwrap()
}

fn kill_group(child: &mut Child) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
}

/// Below 32768: above it a client's own connection may take one while its server restarts.
fn free_ports() -> [u16; 3] {
    let first = 21_100 + (rand::random::<u16>() % 10_000);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut free = (first..32_000).filter(is_free);
    [(); 3].map(|()| free.next().expect("there are three free ports"))
}

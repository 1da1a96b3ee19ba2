//! A broker for one test alone: encrypted, or to be put under an alarm.
//!
//! `BEZOAR_TEST_RABBITMQ_ROOT` is the folder in which RabbitMQ is installed, `/` unless it is set.

use std::{
    env,
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::time::{Instant, sleep};

const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct OwnBroker {
    root: PathBuf,
    /// As the broker sees it.
    folder: PathBuf,
    ports: [u16; 5],
    /// The server before its port mapper, which it needs to the end.
    children: Vec<Child>,
}

impl OwnBroker {
    /// A broker whose configuration has some lines more. `prepare` is given its folder from outside.
    pub(crate) async fn start(prepare: impl FnOnce(&Path), more: impl Fn(&Path) -> String) -> Self {
        let root =
            env::var_os("BEZOAR_TEST_RABBITMQ_ROOT").map_or_else(|| "/".into(), PathBuf::from);
        let folder = PathBuf::from(format!("/tmp/bezoar-broker-{:08x}", rand::random::<u32>()));
        let mut broker = Self { root, folder, ports: free_ports(), children: Vec::new() };
        let outside = broker.outside();
        for part in ["home", "mnesia", "log"] {
            fs::create_dir_all(outside.join(part)).unwrap();
        }
        prepare(&outside);
        let [amqp, amqps, management, ..] = broker.ports;
        let configuration = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\n\
             management.tcp.port = {management}\n{}",
            more(&broker.folder).replace("{amqps}", &amqps.to_string())
        );
        fs::write(outside.join("rabbitmq.conf"), configuration).unwrap();
        fs::write(outside.join("enabled_plugins"), "[rabbitmq_management].\n").unwrap();
        let mapper = broker.ports[4].to_string();
        let epmd = ["-address", "127.0.0.1", "-port", &mapper, "-relaxed_command_check"];
        broker.spawn("epmd", &epmd);
        broker.spawn("/usr/lib/rabbitmq/bin/rabbitmq-server", &[]);
        broker.children.rotate_right(1);
        broker.wait_until_ready().await;
        broker
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports[0])
    }

    pub(crate) fn encrypted_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.ports[1])
    }

    pub(crate) fn management_url(&self) -> String {
        format!("http://guest:guest@127.0.0.1:{}", self.ports[2])
    }

    /// A file of its folder, from outside.
    pub(crate) fn file(&self, name: &str) -> String {
        self.outside().join(name).display().to_string()
    }

    /// Has the broker do something by `rabbitmqctl`.
    pub(crate) fn control(&self, arguments: &[&str]) {
        let mut command = self.command("/usr/lib/rabbitmq/bin/rabbitmqctl", arguments);
        let done = command.stdout(Stdio::null()).status().unwrap();
        assert!(done.success(), "{arguments:?}: {done}");
    }

    fn outside(&self) -> PathBuf {
        self.root.join(self.folder.strip_prefix("/").unwrap())
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let within = |name: &str| self.folder.join(name);
        let [amqp, _, _, distribution, mapper] = self.ports.map(|port| port.to_string());
        // What is mounted is seen by the broker alone, and gone with it.
        let script = r#"mount -t proc proc "${0%/}/proc" && exec chroot "$0" "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&self.root).arg(program).args(arguments);
        command
            .env("HOME", within("home"))
            .env("RABBITMQ_NODENAME", format!("own-{amqp}@localhost"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_CONFIG_FILE", within("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", within("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", within("mnesia"))
            .env("RABBITMQ_LOG_BASE", within("log"))
            .env("RABBITMQ_PID_FILE", within("rabbit.pid"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", amqp)
            .env("RABBITMQ_DIST_PORT", distribution)
            .env("ERL_EPMD_PORT", mapper)
            .env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command
    }

    fn spawn(&mut self, program: &str, arguments: &[&str]) {
        let log = File::create(self.outside().join("log").join("start.txt")).unwrap();
        let errors = log.try_clone().unwrap();
        let mut command = self.command(program, arguments);
        let command = command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        self.children.push(command.spawn().unwrap());
    }

    async fn wait_until_ready(&self) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (client, started) = (reqwest::Client::new(), Instant::now());
        loop {
            let asked = client.get(format!("{}/api/overview", self.management_url())).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(started.elapsed() < READY_WITHIN, "look into {}", self.file("log"));
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        for child in &mut self.children {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(self.outside());
    }
}

/// Below 32768, where no client's own connection takes one meanwhile.
fn free_ports() -> [u16; 5] {
    let mut ports = std::array::from_fn(|_| 0);
    for place in 0..ports.len() {
        loop {
            let port = 23_000 + rand::random::<u16>() % 8_000;
            if !ports.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                ports[place] = port;
                break;
            }
        }
    }
    ports
}

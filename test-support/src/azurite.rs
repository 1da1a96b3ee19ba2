//! A private Azurite, Microsoft's emulator of Azure Storage: on free ports of this machine, with its data in a folder of
//! its own.
//!
//! Azurite saves its data every few seconds. So a test may kill it to see what a client does meanwhile, but not to see
//! what survives.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use crate::ports;

/// The folder of an installed Azurite, the one that `npm install azurite` ran in.
const FOLDER_VARIABLE: &str = "BEZOAR_TEST_AZURITE";
const PROGRAM: &str = "node_modules/azurite/dist/src/azurite.js";
/// How long it may take to start on a busy machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Another process may take a port between our choice and the start.
const START_TRIES: u32 = 3;
/// The account of every emulator, as Microsoft documents it.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Ends the server and removes its data when its standard input is closed: also if this process is killed, and for the
/// shared instance, which is never dropped.
const SCRIPT: &str = r#"data=$1; shift; "$@" & server=$!; cat; kill -KILL $server; rm -rf "$data""#;

/// Numbers the instances of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An emulator of Azure Storage. It is killed when this value is dropped, and at the latest when this process ends.
#[derive(Debug)]
pub struct Azurite {
    server: Child,
    ports: Ports,
    scheme: &'static str,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    blob: u16,
    queue: u16,
    table: u16,
}

impl Azurite {
    /// Starts the Azurite under test: `BEZOAR_TEST_AZURITE` is the folder that it is installed in.
    ///
    /// # Errors
    ///
    /// If the variable is not set, or Azurite does not start.
    pub fn under_test() -> Result<Self> {
        Self::start(&folder_under_test()?)
    }

    /// The Azurite under test that all tests of this process share.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Azurite> = OnceLock::new();
        SHARED.get_or_init(|| Self::under_test().expect("Azurite can be started"))
    }

    /// Starts the Azurite that is installed in `folder`, and waits until all its ports answer.
    ///
    /// # Errors
    ///
    /// If it does not start; the error ends with what it printed.
    pub fn start(folder: &Path) -> Result<Self> {
        Self::start_with(folder, None)
    }

    /// Starts the Azurite under test with TLS, so that it accepts tokens of Entra ID. It checks everything about a token
    /// but its signature. `certificates` is a folder that [`certificates::create`](crate::certificates::create) filled.
    ///
    /// # Errors
    ///
    /// As [`under_test`](Self::under_test).
    pub fn accepting_tokens(certificates: &Path) -> Result<Self> {
        Self::start_with(&folder_under_test()?, Some(certificates))
    }

    fn start_with(folder: &Path, certificates: Option<&Path>) -> Result<Self> {
        for tries_left in (0..START_TRIES).rev() {
            match Self::start_once(folder, certificates) {
                Err(_) if tries_left > 0 => (),
                started => return started,
            }
        }
        bail!("Azurite could not be started")
    }

    fn start_once(folder: &Path, certificates: Option<&Path>) -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("bezoar-azurite-{}-{number}", std::process::id());
        let data = env::temp_dir().join(name);
        fs::create_dir_all(&data)?;
        let [blob, queue, table] = ports::free()?;
        let ports = Ports { blob, queue, table };
        let output = File::create(data.join("output.txt"))?;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(&data).arg("node").arg(folder.join(PROGRAM));
        command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
        command.arg("--location").arg(&data);
        command.args(["--blobPort", &blob.to_string(), "--queuePort", &queue.to_string()]);
        command.args(["--tablePort", &table.to_string()]);
        if let Some(certificates) = certificates {
            command.args(["--oauth", "basic", "--cert"]).arg(certificates.join("server.pem"));
            command.arg("--key").arg(certificates.join("server.key"));
        }
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let server = command.spawn().context("cannot start sh")?;
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let azurite = Self { server, ports, scheme };
        azurite.await_ready(&data)?;
        Ok(azurite)
    }

    fn await_ready(&self, data: &Path) -> Result<()> {
        let started = Instant::now();
        let Ports { blob, queue, table } = self.ports;
        while ![blob, queue, table].into_iter().all(|port| self.answers(port)) {
            let output = fs::read_to_string(data.join("output.txt")).unwrap_or_default();
            // The shell does not end with the server, so that it can remove the data.
            if started.elapsed() > READY_WITHIN || output.contains("Error") {
                bail!("Azurite did not start; it printed:\n{output}");
            }
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Behind TLS, a port that accepts connections has to do.
    fn answers(&self, port: u16) -> bool {
        match self.scheme {
            "https" => TcpStream::connect(("127.0.0.1", port)).is_ok(),
            _ => answers(port),
        }
    }

    /// A connection string that names only the endpoints.
    pub fn endpoints(&self) -> String {
        let endpoint = |port: u16| format!("{}://127.0.0.1:{port}/{ACCOUNT}", self.scheme);
        let Ports { blob, queue, .. } = self.ports;
        format!("QueueEndpoint={};BlobEndpoint={}", endpoint(queue), endpoint(blob))
    }

    /// The connection string with the account key.
    pub fn connection_string(&self) -> String {
        self.connection_string_through(self.ports.queue)
    }

    /// The connection string for a proxy on this machine that leads to the queue service.
    pub fn connection_string_through(&self, port: u16) -> String {
        let Ports { blob, table, .. } = self.ports;
        let endpoint = |port: u16| format!("http://127.0.0.1:{port}/{ACCOUNT}");
        format!(
            "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={};\
             BlobEndpoint={};TableEndpoint={}",
            endpoint(port),
            endpoint(blob),
            endpoint(table),
        )
    }

    /// The name of the account.
    pub fn account(&self) -> &'static str {
        ACCOUNT
    }

    /// The account key, in base64.
    pub fn key(&self) -> &'static str {
        KEY
    }

    /// A shared access signature for the queue and blob services, as the query of a URL.
    ///
    /// # Panics
    ///
    /// Never: the account key is valid.
    pub fn signature(&self, permissions: &str, expiry: &str) -> String {
        let version = "2020-08-04";
        let fields = [ACCOUNT, permissions, "bq", "sco", "", expiry, "", "", version, ""];
        let key = BASE64_STANDARD.decode(KEY).expect("the account key is base64");
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length is accepted");
        mac.update(fields.join("\n").as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
        format!("sv={version}&ss=bq&srt=sco&sp={permissions}&se={expiry}&sig={signature}")
    }

    /// The port of the blob service.
    pub fn blob_port(&self) -> u16 {
        self.ports.blob
    }

    /// The port of the queue service.
    pub fn queue_port(&self) -> u16 {
        self.ports.queue
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

fn folder_under_test() -> Result<PathBuf> {
    let folder = env::var_os(FOLDER_VARIABLE);
    folder.map(PathBuf::from).with_context(|| format!("{FOLDER_VARIABLE} is not set"))
}

/// Whether an HTTP server answers.
fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1"))
}

//! A gateway with a transport `lab` on the shared Azurite, and what others do in the same account.

use std::{
    env,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::azurite::Azurite;
use tokio::time::timeout;

use crate::support::{PATIENCE, client::Client, program::Program};

/// A folder with a configuration, in which gateways are started.
pub(crate) struct Lab {
    pub(crate) folder: TempDir,
    pub(crate) queue: String,
    /// The secret of the account, in the environment of every command.
    secret: String,
}

impl Lab {
    /// `transport` are keys of the transport, `rest` further tables, with QUEUE for the name of a queue that nobody else
    /// uses.
    pub(crate) fn new(transport: &str, rest: &str) -> Self {
        Self::at(Azurite::shared().connection_string(), transport, rest)
    }

    pub(crate) fn at(connection_string: String, transport: &str, rest: &str) -> Self {
        let account = "connection_string = \"env:LAB_ACCOUNT\"";
        Self::with(account, connection_string, transport, rest)
    }

    /// `account` are the keys of the account, with env:LAB_ACCOUNT for its secret.
    pub(crate) fn with(account: &str, secret: String, transport: &str, rest: &str) -> Self {
        let queue = format!("results-{:08x}", rand::random::<u32>());
        let (folder, rest) = (tempfile::tempdir().unwrap(), rest.replace("QUEUE", &queue));
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"sqlite:bezoar.db\"\n\
             [transports.lab]\nurl = \"azurequeue:\"\n{account}\n\
             first_poll = \"50ms\"\nlongest_poll = \"200ms\"\n{transport}\n{rest}\n"
        );
        std::fs::write(folder.path().join("bezoar.toml"), text).unwrap();
        Self { folder, queue, secret }
    }

    /// The queue's name in the gateway.
    pub(crate) fn name(&self) -> String {
        format!("lab/{}", self.queue)
    }

    /// The path of the queue in the API.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/queues/lab%2F{}/{rest}", self.queue)
    }

    pub(crate) fn up(&self) -> (Program, Client) {
        let program = Program::start(&mut self.command("up", &[]));
        let client = Client::of_folder(program.address, self.folder.path());
        (program, client)
    }

    /// A command of the program in this folder.
    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bezoar"));
        command.arg(name).args(arguments).current_dir(self.folder.path());
        command.env("LAB_ACCOUNT", &self.secret);
        command.env_remove("RUST_LOG").env_remove("BEZOAR_CONFIG");
        command
    }

    pub(crate) fn output(&self, name: &str, arguments: &[&str]) -> Output {
        self.command(name, arguments).output().unwrap()
    }

    /// What a command prints on both streams, and whether it succeeds.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> (bool, String) {
        let done = self.output(name, arguments);
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// What Microsoft's client for Python does with this queue.
    pub(crate) fn python(&self, command: &str, texts: &[&str]) -> Value {
        python(command, &self.queue, texts)
    }

    pub(crate) fn poison(&self) -> String {
        format!("{}-poison", self.queue)
    }
}

/// What Microsoft's client for Python does with a queue.
pub(crate) fn python(command: &str, queue: &str, texts: &[&str]) -> Value {
    let interpreter = env::var_os("BEZOAR_TEST_AZURE_PYTHON");
    let interpreter = interpreter.expect("BEZOAR_TEST_AZURE_PYTHON is a Python with the client");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/azurite/foreign.py");
    let account = Azurite::shared().connection_string();
    let mut program = Command::new(interpreter);
    program.arg("-B").arg(script).args([&account, command, queue]).args(texts);
    let done = program.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// The only dead letter, as soon as it is taken in.
pub(crate) async fn dead_letter(client: &Client) -> Value {
    let listed = until(client, "/v1/dead-letters", |it| it["items"] != json!([])).await;
    match listed["items"].as_array().unwrap().as_slice() {
        [one] => one.clone(),
        more => panic!("{more:?}"),
    }
}

/// What the gateway says at a path, as soon as it fits.
pub(crate) async fn until(client: &Client, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let value = client.get(path).await.json();
            if fits(&value) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{path} does not get there"))
}

/// A request with a JSON body, and its JSON answer.
pub(crate) async fn ask(client: &Client, path: &str, body: Value) -> (StatusCode, Value) {
    let json = [("content-type", "application/json")];
    let reply = client.post(path, &json, Bytes::from(body.to_string())).await;
    (reply.status, reply.json())
}

/// Reveals the body of a dead letter.
pub(crate) async fn reveal(client: &Client, letter: &Value) -> Vec<u8> {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let path = format!("/v1/dead-letters/{}/reveal", letter["id"].as_str().unwrap());
    let (status, shown) = ask(client, &path, json!({ "reason": "look", "what": ["body"] })).await;
    assert_eq!(status, StatusCode::OK, "{shown}");
    BASE64_STANDARD.decode(shown["body_base64"].as_str().unwrap()).unwrap()
}

//! A virtual host for one test, because the test breaks objects that all queues share.

use std::env;

use bezoar_rabbitmq::{Options, QueueType};
use lapin::{Channel, Connection, ConnectionProperties};

use super::support::{options, url};

pub(crate) struct Vhost {
    name: String,
}

impl Vhost {
    pub(crate) async fn new() -> Self {
        let name = format!("check-{:08x}", rand::random::<u32>());
        put(&format!("vhosts/{name}"), "{}").await;
        let vhost = Self { name };
        vhost.permit("guest").await;
        vhost
    }

    pub(crate) async fn permit(&self, user: &str) {
        let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
        put(&format!("permissions/{}/{user}", self.name), all).await;
    }

    /// Leaves a user only the permission to read what `read` matches; none to write or configure.
    pub(crate) async fn restrict(&self, user: &str, read: &str) {
        let some = format!(r#"{{"configure": "", "write": "", "read": "{read}"}}"#);
        put(&format!("permissions/{}/{user}", self.name), &some).await;
    }

    /// Gives a user exactly these permissions: to configure, to write and to read.
    pub(crate) async fn permit_exactly(&self, user: &str, [configure, write, read]: [&str; 3]) {
        let some =
            format!(r#"{{"configure": "{configure}", "write": "{write}", "read": "{read}"}}"#);
        put(&format!("permissions/{}/{user}", self.name), &some).await;
    }

    /// A user who has all AMQP permissions here, but no access to the management API.
    pub(crate) async fn user(&self) -> String {
        let user = format!("user-{:08x}", rand::random::<u32>());
        put(&format!("users/{user}"), r#"{"password": "secret", "tags": ""}"#).await;
        self.permit(&user).await;
        user
    }

    pub(crate) async fn policy(&self, pattern: &str, definition: &str) {
        self.policy_for("queues", pattern, definition).await;
    }

    /// A policy for queues or exchanges.
    pub(crate) async fn policy_for(&self, what: &str, pattern: &str, definition: &str) {
        let body = format!(
            r#"{{"pattern": "{pattern}", "definition": {definition}, "apply-to": "{what}"}}"#
        );
        put(&format!("policies/{}/p", self.name), &body).await;
    }

    pub(crate) fn options(&self, queue_type: QueueType) -> Options {
        Options { url: self.url().into(), ..options(queue_type) }
    }

    /// The options for one of its users.
    pub(crate) fn options_of(&self, user: &str, queue_type: QueueType) -> Options {
        let url = self.url().replacen("guest:guest", &format!("{user}:secret"), 1);
        Options { url: url.into(), ..options(queue_type) }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", url().rsplit_once('/').unwrap().0, self.name)
    }

    /// The answer of the management API about a part of the virtual host.
    pub(crate) async fn get(&self, part: &str) -> serde_json::Value {
        let request = client().get(format!("{}/api/vhosts/{}/{part}", management(), self.name));
        let body = request.send().await.unwrap().bytes().await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// The names of all its queues.
    pub(crate) async fn queue_names(&self) -> Vec<String> {
        let request = client().get(format!("{}/api/queues/{}", management(), self.name));
        let body = request.send().await.unwrap().bytes().await.unwrap();
        let queues: Vec<serde_json::Value> = serde_json::from_slice(&body).unwrap();
        queues.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn channel(&self) -> (Connection, Channel) {
        let connection = Connection::connect(&self.url(), ConnectionProperties::default()).await;
        let connection = connection.unwrap();
        let channel = connection.create_channel().await.unwrap();
        (connection, channel)
    }
}

/// Imports a definitions file.
pub(crate) async fn import(definitions: &serde_json::Value) {
    let request = client().post(format!("{}/api/definitions", management()));
    let request = request.header("content-type", "application/json");
    let answer = request.body(definitions.to_string()).send().await.unwrap();
    let status = answer.status();
    assert!(status.is_success(), "{status}: {:?}", answer.bytes().await.unwrap());
}

/// A file of the management plugin.
pub(crate) async fn fetch(path: &str) -> Vec<u8> {
    let answer = client().get(format!("{}/{path}", management())).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.bytes().await.unwrap().to_vec()
}

async fn put(path: &str, body: &str) {
    let request = client().put(format!("{}/api/{path}", management()));
    let request = request.header("content-type", "application/json").body(body.to_owned());
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
}

fn management() -> String {
    env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap()
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

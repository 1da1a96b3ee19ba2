//! A topology that a team made with pika: its own names, no name or argument of ours.
//!
//! `BEZOAR_TEST_PIKA` is a Python interpreter with pika.

use std::{env, path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use super::broker::transport;
use crate::support::{Endpoint, Lab, PATIENCE};

/// The team's topology; `name` is its work queue.
struct Team {
    name: String,
}

impl Team {
    async fn new() -> Self {
        let team = Self { name: format!("team-{:08x}", rand::random::<u32>()) };
        team.amqp("declare", &[&team.name]).await;
        team
    }

    /// Runs the team's program; returns what it prints.
    async fn run(&self, what: &str, url: &str, arguments: &[&str]) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pika/team.py");
        let python = env::var_os("BEZOAR_TEST_PIKA").expect("BEZOAR_TEST_PIKA is set");
        let mut command = Command::new(python);
        command.arg("-B").arg(script).args([what, url]).args(arguments);
        let done = command.kill_on_drop(true).output().await.unwrap();
        assert!(done.status.success(), "{what}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    async fn amqp(&self, what: &str, arguments: &[&str]) -> Value {
        self.run(what, &env::var("BEZOAR_TEST_AMQP").unwrap(), arguments).await
    }

    async fn publish(&self, id: &str) {
        self.amqp("publish", &[&self.name, id]).await;
    }

    /// Waits until the management API counts so many dead letters.
    async fn until_dead(&self, count: u64) {
        let (url, queue) = (env::var("BEZOAR_TEST_AMQP_MANAGEMENT").unwrap(), self.dead_queue());
        let counting = async {
            while self.run("count", &url, &[&queue]).await != count {
                sleep(Duration::from_millis(200)).await; // the broker counts every five seconds
            }
        };
        timeout(PATIENCE, counting).await.expect("the management API counts them");
    }

    fn dead_queue(&self) -> String {
        format!("{}.dlq", self.name)
    }

    /// A gateway with a route from the team's queue.
    async fn lab(&self, port: u16, dead_letter: &str, watch: &str) -> Lab {
        let name = &self.name;
        let lab = Lab::start(&format!(
            r#"
            {}
            [[queue]]
            name = "hospital/{name}"
            dead_letter_exchange = "{name}.dlx"
            dead_letter_key = "failed"
            dead_letter_queue = "{name}.dlq"
            watch = "{watch}"

            [[route]]
            name = "results"
            from = "hospital/{name}"
            to = "http://127.0.0.1:{port}/"
            retry = {{ max_retries = 1, first = "100ms", jitter = 0.0 }}
            breaker = {{ failures = 100 }}
            dead_letter = "{dead_letter}"
            "#,
            transport()
        ))
        .await;
        lab.until(&format!("hospital/{name}"), |row| {
            row["ready"].is_number() && row["route"]["problem"].is_null()
        })
        .await;
        lab
    }

    /// The next message that passes the team's exchange: what it says of itself.
    async fn archived(&self) -> Value {
        self.amqp("get", &[&format!("{}.archive", self.name)]).await
    }

    /// Asserts that a message passes the team's exchange as it was published.
    async fn assert_published(&self, id: &str) -> Value {
        let seen = self.archived().await;
        let route = (&seen["exchange"], &seen["routing_key"]);
        assert_eq!(route, (&json!(format!("{}.events", self.name)), &json!("lab.blood")), "{seen}");
        let expected = (&json!(id), &json!("visit-3"), &json!("MSH|poison"));
        assert_eq!((&seen["message_id"], &seen["correlation_id"], &seen["body"]), expected);
        assert!(seen["headers"].as_array().unwrap().contains(&json!("ward")), "{seen}");
        seen
    }
}

/// Reason and ledger, as an answer of the API has them.
fn assert_exhausted(letter: &Value, id: &str) {
    assert_eq!((&letter["message_id"], &letter["attempts"]), (&json!(id), &json!(2)), "{letter}");
    assert_eq!(letter["reason"], "max retries (1) exhausted", "{letter}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs RabbitMQ and pika: cargo xtask test has both"]
async fn a_teams_own_topology_works_with_rejected_and_with_published_dead_letters() {
    let (team, endpoint) = (Team::new().await, Endpoint::start().await);
    reject_and_count(&team, &endpoint).await;
    reject_and_take(&team, &endpoint).await;
    publish_and_count(&team, &endpoint).await;
    publish_and_take(&team, &endpoint).await;
}

/// The dead letter stays on the broker; why it died is known here.
async fn reject_and_count(team: &Team, endpoint: &Endpoint) {
    let lab = team.lab(endpoint.port, "reject", "count").await;
    endpoint.answers([500, 500]);
    team.publish("m-1").await;
    team.assert_published("m-1").await;
    team.until_dead(1).await;
    lab.until(&format!("hospital/{}", team.name), |row| row["dead"] == 1).await;
    let (_, found) = lab.get("/v1/rejections?message_id=m-1").await;
    assert_exhausted(&found["items"][0], "m-1");
    let codes = &found["items"][0]["history"];
    assert_eq!((&codes[0]["code"], &codes[1]["code"]), (&json!("http.500"), &json!("http.500")));
    replay_on_broker(&lab, team, "m-1").await;
    assert_eq!(endpoint.requests(3).await.len(), 3);
    lab.gateway.stop().await;
}

/// The dead letter stays on the broker, and says itself why it died.
async fn publish_and_count(team: &Team, endpoint: &Endpoint) {
    let lab = team.lab(endpoint.port, "publish", "count").await;
    let before = endpoint.so_far();
    endpoint.answers([500, 500]);
    team.publish("m-3").await;
    team.assert_published("m-3").await;
    team.until_dead(1).await;
    lab.until(&format!("hospital/{}", team.name), |row| row["dead"] == 1).await;
    let headers = team.amqp("peek", &[&team.dead_queue()]).await;
    assert_eq!(headers["bezoar-reason"], "max retries (1) exhausted", "{headers}");
    assert_eq!((&headers["bezoar-failed"], &headers["ward"]), (&json!(2), &json!(7)), "{headers}");
    let history: Value = serde_json::from_str(headers["bezoar-history"].as_str().unwrap()).unwrap();
    let codes = (&history[0]["code"], &history[1]["code"]);
    assert_eq!(codes, (&json!("http.500"), &json!("http.500")), "{history}");
    replay_on_broker(&lab, team, "m-3").await;
    assert_eq!(endpoint.requests(before + 3).await.len(), before + 3);
    lab.gateway.stop().await;
}

/// Replays the only dead letter on its broker: to the exchange and key that it was published with.
async fn replay_on_broker(lab: &Lab, team: &Team, id: &str) {
    let path = format!("/v1/queues/hospital%2F{}/replay", team.name);
    let (_, told) = lab.post(&path, &[], r#"{"reason": "mended"}"#).await;
    assert_eq!(told, json!({ "replayed": 1 }));
    team.assert_published(id).await;
    team.until_dead(0).await;
}

/// The dead letter is taken in, and the store adds why it died.
async fn reject_and_take(team: &Team, endpoint: &Endpoint) {
    let lab = team.lab(endpoint.port, "reject", "take").await;
    take_and_replay(&lab, team, endpoint, "m-2").await;
    lab.gateway.stop().await;
}

async fn publish_and_take(team: &Team, endpoint: &Endpoint) {
    let lab = team.lab(endpoint.port, "publish", "take").await;
    take_and_replay(&lab, team, endpoint, "m-4").await;
    lab.gateway.stop().await;
}

async fn take_and_replay(lab: &Lab, team: &Team, endpoint: &Endpoint, id: &str) {
    let before = endpoint.so_far();
    endpoint.answers([500, 500]);
    team.publish(id).await;
    team.assert_published(id).await;
    let path = format!("/v1/dead-letters?queue=hospital%2F{}", team.name);
    let looking = async {
        loop {
            let (_, listed) = lab.get(&path).await;
            if let Some(letter) = listed["items"].get(0) {
                return letter.clone();
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let letter = timeout(PATIENCE, looking).await.expect("it is taken in");
    let (_, shown) = lab.get(&format!("/v1/dead-letters/{}", letter["id"].as_str().unwrap())).await;
    assert_exhausted(&shown, id);
    assert_eq!(shown["error"]["code"], "http.500", "{shown}");
    let origin = (&shown["origin"]["exchange"], &shown["origin"]["routing_key"]);
    assert_eq!(origin, (&json!(format!("{}.events", team.name)), &json!("lab.blood")), "{shown}");
    let replayed = lab.replay_all().await;
    assert_eq!((&replayed["completed"], &replayed["failed"]), (&json!(1), &json!(0)));
    let again = team.assert_published(id).await;
    assert!(again["headers"].as_array().unwrap().contains(&json!("bezoar-replayed")), "{again}");
    assert_eq!(endpoint.requests(before + 3).await.len(), before + 3);
}

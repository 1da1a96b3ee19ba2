//! Cycles of load and kill, and a last one that ends well.

use std::{collections::HashSet, path::Path};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::TempDir;
use tokio::{sync::watch, time::timeout};

use crate::{
    endpoint::Endpoint,
    evidence::Evidence,
    message::is_poison,
    producers::Promises,
    support::{PATIENCE, client::Client, program::Program},
};

const CONCURRENCY: usize = 32;

/// How a gateway is started in its folder.
pub(crate) type Start = fn(&Path, &Endpoint) -> Program;

pub(crate) struct Run {
    folder: TempDir,
    start: Start,
    random: StdRng,
    endpoint: Endpoint,
    promises: Promises,
}

impl Run {
    pub(crate) async fn new(start: Start, seed: u64) -> Self {
        println!("seed {seed}");
        let (folder, endpoint) = (tempfile::tempdir().unwrap(), Endpoint::start(seed).await);
        configure(folder.path(), endpoint.port);
        let random = StdRng::seed_from_u64(seed);
        Self { folder, start, random, endpoint, promises: Promises::default() }
    }

    pub(crate) async fn cycles(mut self, cycles: u32) -> Evidence {
        for cycle in 0..cycles {
            self.kill_under_load(cycle).await;
        }
        let gateway = self.gateway();
        let client = Client::of_folder(gateway.address, self.folder.path());
        let count = |row: &serde_json::Value, state| row[state].as_u64().unwrap();
        let is_idle =
            |row: &_| ["ready", "delayed", "in_flight"].map(|it| count(row, it)) == [0; 3];
        client.until("lab", is_idle).await;
        let dead = dead(&client).await;
        gateway.stop();
        self.evidence(dead, cycles as usize * CONCURRENCY)
    }

    fn gateway(&self) -> Program {
        (self.start)(self.folder.path(), &self.endpoint)
    }

    /// The moment is one of progress, now of acceptance, now of delivery.
    async fn kill_under_load(&mut self, cycle: u32) {
        let gateway = self.gateway();
        let client = Client::of_folder(gateway.address, self.folder.path());
        let mut producers = self.promises.produce(&client, cycle);
        let further = self.random.random_range(1..600);
        let progress =
            if self.random.random() { &self.promises.progress } else { &self.endpoint.progress };
        advance(progress, further).await;
        gateway.kill();
        let noticed = async { while producers.join_next().await.transpose().unwrap().is_some() {} };
        timeout(PATIENCE, noticed).await.expect("the producers notice");
    }

    fn evidence(self, dead: HashSet<String>, in_flight: usize) -> Evidence {
        let asked = self.promises.asked.lock().unwrap().clone();
        let accepted = self.promises.accepted.lock().unwrap().clone();
        let poison = asked.iter().filter(|id| is_poison(id)).cloned().collect();
        let delivered = self.endpoint.delivered();
        Evidence { asked, accepted, delivered, dead, poison, in_flight }
    }
}

async fn advance(progress: &watch::Sender<usize>, further: usize) {
    let mut progress = progress.subscribe();
    let goal = *progress.borrow() + further;
    let reached = progress.wait_for(|count| *count >= goal);
    timeout(PATIENCE, reached).await.expect("the gateway makes progress").unwrap();
}

/// Quick retries that do not run out, a breaker that stays closed; leases are as short as they may be.
fn configure(folder: &Path, port: u16) {
    let text = format!(
        r#"
        [server]
        listen = "127.0.0.1:0"
        [store]
        url = "sqlite:bezoar.db"
        [log]
        level = "warn"
        [[route]]
        name = "results"
        from = "lab"
        to = "http://127.0.0.1:{port}/"
        concurrency = {CONCURRENCY}
        retry = {{ max_retries = 100, first = "5ms", multiplier = 1.0, max = "5ms", jitter = 0.0 }}
        breaker = {{ failures = 1000, pause = "10ms", max_pause = "10ms" }}
        lease = "1s"
        max_deliveries = 100
        "#
    );
    std::fs::write(folder.join("bezoar.toml"), text).unwrap();
}

/// The ids of all dead letters, page by page.
async fn dead(client: &Client) -> HashSet<String> {
    let (mut ids, mut after) = (HashSet::new(), String::new());
    loop {
        let path = format!("/v1/dead-letters?queue=lab&limit=1000{after}");
        let page = client.get(&path).await.json();
        for letter in page["items"].as_array().unwrap() {
            assert!(ids.insert(letter["message_id"].as_str().unwrap().to_owned()), "{letter}");
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return ids,
        }
    }
}

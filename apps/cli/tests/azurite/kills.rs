//! Two gateways consume one queue, and one of them is killed with -9 again and again.
//!
//! Only gateways are killed. Killing Azurite would prove nothing: it loses what it did not save yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::interval;

use crate::{
    endpoint::Endpoint,
    evidence::{Answered, Evidence, Verdict},
    lab::{Lab, python},
    support::{client::Client, program::Program},
};

/// Long enough for a busy machine: a gateway that is held up for half of a lease lets it expire, and the message waits for
/// another one.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(8);
const LONGEST_POLL: Duration = Duration::from_secs(1);
const LOOPS: usize = 4;
const EACH: usize = 2;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Azurite in BEZOAR_TEST_AZURITE; `cargo xtask test` starts it"]
async fn two_gateways_lose_nothing_while_one_is_killed_again_and_again() {
    // Other tests run beside it: a gateway that is held up for half of a lease lets it expire, and the message waits for
    // another one.
    check(200, 5, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_two_gateways_lose_nothing_while_one_is_killed_again_and_again() {
    check(10_000, 50, Duration::from_secs(1)).await;
}

/// A message whose lease expired must be picked up within the visibility timeout, the longest poll and `slack`.
async fn check(messages: usize, kills: usize, slack: Duration) {
    let endpoint = Endpoint::slow(Duration::from_millis(100)).await;
    let survivor = lab(&endpoint, "survivor", None);
    let victim = lab(&endpoint, "victim", Some(&survivor.queue));
    let (_gateway, client) = survivor.up();
    let more = Arc::new(AtomicBool::new(true));
    let path = survivor.path("messages");
    let sending = tokio::spawn(send(client.clone(), path, messages, more.clone()));
    let mut killed = Vec::new();
    for _ in 0..kills {
        killed.push(kill_under_load(&victim, &endpoint).await);
    }
    more.store(false, Ordering::SeqCst);
    let sent = sending.await.unwrap();
    client.until(&survivor.name(), |row| row["total"] == 0).await;
    let evidence = Evidence {
        picked_up_within: VISIBILITY_TIMEOUT + LONGEST_POLL + slack,
        ..evidence(&endpoint, sent, killed)
    };
    println!("{evidence}");
    assert_eq!(evidence.judge(), Verdict::default(), "{evidence}");
    assert_eq!(python("count", &survivor.queue, &[]), 0);
    assert_eq!(python("count", &survivor.poison(), &[]), 0, "no message is blamed for a kill");
}

/// Sends at least `least` messages, and goes on while there are `more` to come: fewer at a time than one gateway can
/// deliver, so that a message waits for its lease and not for others. Returns what was accepted.
async fn send(
    client: Client,
    path: String,
    least: usize,
    more: Arc<AtomicBool>,
) -> BTreeSet<String> {
    let (mut ticks, mut sent) = (interval(Duration::from_millis(30)), BTreeSet::new());
    while sent.len() < least || more.load(Ordering::SeqCst) {
        ticks.tick().await;
        let body = format!("m-{}", sent.len());
        let reply = client.post(&path, &[], body.clone().into()).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        sent.insert(body);
    }
    sent
}

/// Starts the gateway, and kills it as soon as it has some messages in flight.
async fn kill_under_load(lab: &Lab, endpoint: &Endpoint) -> Instant {
    let of_victim =
        |all: &[crate::endpoint::Arrival]| all.iter().filter(|it| it.gateway == "victim").count();
    let before = of_victim(&endpoint.arrivals());
    let (program, _client): (Program, _) = lab.up();
    endpoint.until(|all| of_victim(all) > before + LOOPS * EACH).await;
    program.kill();
    Instant::now()
}

fn lab(endpoint: &Endpoint, name: &str, queue: Option<&str>) -> Lab {
    let transport = format!(
        "visibility_timeout = \"{}s\"\nfetch_loops = {LOOPS}\nbatch_concurrency = {EACH}\nmax_dequeue_count = 100",
        VISIBILITY_TIMEOUT.as_secs()
    );
    let route =
        crate::life::route(endpoint.port) + &format!("headers = {{ X-Gateway = \"{name}\" }}\n");
    let route = match queue {
        Some(queue) => route.replace("QUEUE", queue),
        None => route,
    };
    let lab = Lab::new(&transport, &route);
    let file = lab.folder.path().join("bezoar.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let longest = format!("longest_poll = \"{}s\"", LONGEST_POLL.as_secs());
    std::fs::write(file, text.replace("longest_poll = \"200ms\"", &longest)).unwrap();
    lab
}

fn evidence(endpoint: &Endpoint, sent: BTreeSet<String>, kills: Vec<Instant>) -> Evidence {
    let mut arrived = BTreeMap::<String, Vec<_>>::new();
    for arrival in endpoint.begun() {
        let id = String::from_utf8_lossy(&arrival.body).into_owned();
        let answered = if arrival.is_done { Answered::Yes } else { Answered::No };
        arrived.entry(id).or_default().push((arrival.at, answered));
    }
    Evidence { sent, arrived, kills, in_flight: LOOPS * EACH, ..Evidence::default() }
}

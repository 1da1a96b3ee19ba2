//! `bezoar demo`: a story on a real gateway. A clinic sends lab results and appointments through the HTTP API to an
//! archive that is sometimes busy, goes down once, and receives some results that it cannot store.
//!
//! | file | contents |
//! | --- | --- |
//! | `traffic.rs` | the messages that are sent |
//! | `archive.rs` | the endpoint and its responses |
//! | `operator.rs` | replays the dead letters |
//! | `watcher.rs` | watches the gateway through its API |
//! | `message_counts.rs` | message counts by state |
//! | `narrator.rs` | prints the story |

mod archive;
mod message_counts;
mod narrator;
mod operator;
mod traffic;
mod watcher;

use std::{
    io::IsTerminal,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Result, bail};
use bezoar::Shutdown;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::{archive::Archive, message_counts::MessageCounts, narrator::Narrator};
use crate::{
    client::ApiClient, local_endpoint::LocalEndpoint, route, temporary_gateway::TemporaryGateway,
};

/// How long to wait at the end for messages in flight.
const GRACE: Duration = Duration::from_secs(3);
/// The length of a round if the demo has no end.
const ROUND: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long the demo runs, in seconds [default: until Ctrl-C on a terminal, 30 otherwise]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let seconds = arguments.seconds.or((!terminal).then_some(30));
    let narrator = Arc::new(Narrator::new(terminal));
    let archive = Archive::new(narrator.clone());
    let endpoint = {
        let archive = archive.clone();
        let answer = move |request| archive.clone().answer(request);
        LocalEndpoint::start(loopback(0), answer).await?
    };
    let sandbox = start(configuration(endpoint.address)).await?;
    narrator.introduce(&sandbox.url(), &sandbox.token_file(), seconds);
    let client = sandbox.client()?;
    let stop = Shutdown::default();
    let told = tokio::select! {
        told = tell_story(&client, &archive, &narrator, seconds, &stop) => told,
        _ = async { tokio::join!(stop.listen(), stop.aborting()) } => Ok(()),
    };
    sandbox.stop().await?;
    told
}

/// Listens on the default port if it is free.
async fn start(configuration: String) -> Result<TemporaryGateway> {
    match TemporaryGateway::start(loopback(8420), configuration.clone()).await {
        Ok(sandbox) => Ok(sandbox),
        Err(_) => TemporaryGateway::start(loopback(0), configuration).await,
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Two routes to one archive, each with its own breaker.
fn configuration(archive: SocketAddr) -> String {
    let route = |name: &str, queue: &str| {
        format!(
            r#"
            [[route]]
            name = "{name}"
            from = "{queue}"
            to = "http://{archive}/{name}"
            timeout = "5s"
            concurrency = 8
            retry = {{ max_retries = 3, first = "400ms", multiplier = 2.0, max = "5s" }}
            breaker = {{ failures = 5, pause = "300ms", max_pause = "1s" }}
            "#
        )
    };
    let routes = traffic::ROUTES.map(|(name, queue)| route(name, queue));
    format!("[server]\ndrain = \"5s\"\n{}", routes.concat())
}

/// Runs traffic and outage side by side, then prints the summary.
async fn tell_story(
    client: &ApiClient,
    archive: &Archive,
    narrator: &Narrator,
    seconds: Option<u32>,
    stop: &Shutdown,
) -> Result<()> {
    let end = stop.child();
    let story = async {
        tokio::select! {
            () = act(client, archive, narrator, seconds) => (),
            () = stop.draining() => narrator.say("■", "stopping: no more messages are sent"),
        }
        end.drain();
        Ok(())
    };
    tokio::select! {
        told = async { tokio::try_join!(traffic::send(client, &end), story) } => drop(told?),
        watched = watcher::watch(client, narrator) => watched?,
    }
    // Messages sent by hand are delivered until the routes are paused.
    let _ = timeout(GRACE, delivered(client)).await;
    for (name, _) in traffic::ROUTES {
        route::send_command(route::RouteCommand::Pause, name, client).await?;
    }
    summarize(client, narrator).await
}

/// What happens to the archive, in rounds; runs forever if `seconds` is `None`.
async fn act(client: &ApiClient, archive: &Archive, narrator: &Narrator, seconds: Option<u32>) {
    let round = seconds.map_or(ROUND, |seconds| Duration::from_secs(seconds.into()));
    loop {
        sleep(round.mul_f64(0.25)).await;
        narrator.say("▼", "the archive goes down and answers 503 to everything");
        archive.go_down();
        sleep(round.mul_f64(0.25)).await;
        narrator.say("▲", "the archive is up again");
        archive.come_back();
        let rest = Instant::now() + round.mul_f64(0.5);
        sleep(round.mul_f64(0.2)).await;
        operator::replay(client, narrator).await;
        sleep_until(rest).await;
        if seconds.is_some() {
            return narrator.say("■", "finished: no more messages are sent");
        }
    }
}

/// Waits until no message is ready or in flight.
async fn delivered(client: &ApiClient) -> Result<()> {
    while MessageCounts::read(client).await?.moving > 0 {
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Checks that every accepted message is delivered, waiting or dead: none lost, none counted twice.
async fn summarize(client: &ApiClient, narrator: &Narrator) -> Result<()> {
    let started = Instant::now();
    loop {
        let counts = MessageCounts::read(client).await?;
        // A message may be stored as done a moment before it is counted as delivered.
        if counts.adds_up() || started.elapsed() > GRACE {
            narrator.conclude(&counts, &watcher::causes(client).await?);
            if !counts.adds_up() {
                bail!("the numbers do not add up; this is a bug, please report it");
            }
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

//! `bezoar top`: a live view of queues, causes and running operations, refreshed every second.

mod board;
mod screen;
mod view;

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::{Result, bail};
use bezoar_gateway::api_types::{Cause, Operation, OperationState, Page};
use crossterm::event::EventStream;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde::de::DeserializeOwned;
use tokio::{
    join,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use self::{
    board::{Board, KeyAction},
    screen::Screen,
};
use crate::{
    client::{ApiClient, ClientError},
    queue_status::{self, QueueStatus},
    route::{self, RouteCommand},
};

const EVERY: Duration = Duration::from_secs(1);

/// The states of operations that are shown.
const IN_PROGRESS: [OperationState; 3] =
    [OperationState::Running, OperationState::Paused, OperationState::Stopped];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// A response from the gateway.
enum Update {
    Snapshot(Result<Snapshot, ClientError>),
    CommandDone { route: String, command: RouteCommand, result: Result<(), ClientError> },
}

/// What the gateway says at one time. Causes and operations are `None` if it did not say.
#[derive(Debug, Default)]
struct Snapshot {
    queues: Vec<QueueStatus>,
    causes: Option<Vec<Cause>>,
    operations: Option<Vec<Operation>>,
}

pub(crate) async fn run(_: Arguments, client: &ApiClient) -> Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("top requires a terminal; use `bezoar queues --json` instead");
    }
    // A wrong address or token is reported as an error, not in the live view.
    let first = ask(client).await?;
    let mut board = Board::new(client.url().to_string());
    board.learn(first, Instant::now());
    watch(client, board, &mut Screen::enter()?).await
}

async fn watch(client: &ApiClient, mut board: Board, screen: &mut Screen) -> Result<()> {
    let (mut keys, mut terminated) = (EventStream::new(), signal(SignalKind::terminate())?);
    let (mut ticks, mut hung_up) = (ticks(), signal(SignalKind::hangup())?);
    let mut requests: FuturesUnordered<LocalBoxFuture<'_, Update>> = FuturesUnordered::new();
    let mut is_asking = false;
    loop {
        screen.draw(|frame| view::draw(frame, &board, Instant::now()))?;
        tokio::select! {
            _ = ticks.tick() => {
                if !std::mem::replace(&mut is_asking, true) {
                    requests.push(refresh(client).boxed_local());
                }
            }
            Some(update) = requests.next() => {
                is_asking &= !matches!(update, Update::Snapshot(_));
                take(update, &mut board, &mut ticks);
            }
            event = keys.next() => match event {
                Some(event) => match board.press(&event?, Instant::now()) {
                    Some(KeyAction::Quit) => return Ok(()),
                    Some(KeyAction::Command(command, route)) => {
                        requests.push(send_command(client, command, route).boxed_local());
                    }
                    None => {}
                },
                None => return Ok(()),
            },
            () = either(&mut terminated, &mut hung_up) => return Ok(()),
        }
    }
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! { _ = one.recv() => {}, _ = other.recv() => {} }
}

fn take(update: Update, board: &mut Board, ticks: &mut Interval) {
    match update {
        Update::Snapshot(Ok(snapshot)) => board.learn(snapshot, Instant::now()),
        Update::Snapshot(Err(error)) => board.lose(error),
        Update::CommandDone { route, command, result } => {
            board.command_done(&route, command, result.err(), Instant::now());
            ticks.reset_immediately(); // to show the effect
        }
    }
}

async fn ask(client: &ApiClient) -> Result<Snapshot, ClientError> {
    let (queues, causes, replays, discards) = join!(
        queue_status::fetch(client),
        listed(client, "/v1/causes?limit=10"),
        listed(client, "/v1/replays"),
        listed(client, "/v1/discards"),
    );
    let operations = replays.zip(discards).map(|(replays, discards)| {
        let both = replays.into_iter().chain(discards);
        both.filter(|operation: &Operation| IN_PROGRESS.contains(&operation.state)).collect()
    });
    Ok(Snapshot { queues: queues?.parse()?, causes, operations })
}

/// The first page of a list.
async fn listed<T: DeserializeOwned>(client: &ApiClient, path: &str) -> Option<Vec<T>> {
    let page: Page<T> = client.get(path).await.ok()?.parse().ok()?;
    Some(page.items)
}

async fn refresh(client: &ApiClient) -> Update {
    Update::Snapshot(ask(client).await)
}

async fn send_command(client: &ApiClient, command: RouteCommand, route: String) -> Update {
    let result = route::send_command(command, &route, client).await.map(drop);
    Update::CommandDone { route, command, result }
}

fn ticks() -> Interval {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

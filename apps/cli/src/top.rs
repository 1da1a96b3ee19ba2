//! `bezoar top`: the queues as they are, every second.

mod board;
mod screen;
mod view;

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::{Result, bail};
use crossterm::event::EventStream;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use self::{
    board::{Board, Wish},
    screen::Screen,
};
use crate::{
    client::{Client, ClientError},
    figures::{self, Figures},
    route::{self, Order},
};

const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// What came back from the gateway.
enum News {
    Figures(Result<Vec<Figures>, ClientError>),
    Ordered { route: String, order: Order, result: Result<(), ClientError> },
}

pub(crate) async fn run(_: Arguments, client: &Client) -> Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!("top needs a terminal; use `bezoar queues --json` instead");
    }
    // Who has the wrong address or no token reads so in words, and not in a live view.
    let first = ask(client).await?;
    let mut board = Board::new(client.url().to_string());
    board.learn(first, Instant::now());
    watch(client, board, &mut Screen::enter()?).await
}

async fn watch(client: &Client, mut board: Board, screen: &mut Screen) -> Result<()> {
    let (mut keys, mut terminated) = (EventStream::new(), signal(SignalKind::terminate())?);
    let (mut ticks, mut hung_up) = (ticks(), signal(SignalKind::hangup())?);
    let mut requests: FuturesUnordered<LocalBoxFuture<'_, News>> = FuturesUnordered::new();
    let mut is_asking = false;
    loop {
        screen.draw(|frame| view::draw(frame, &board, Instant::now()))?;
        tokio::select! {
            _ = ticks.tick() => {
                if !std::mem::replace(&mut is_asking, true) {
                    requests.push(figures(client).boxed_local());
                }
            }
            Some(news) = requests.next() => {
                is_asking &= !matches!(news, News::Figures(_));
                take(news, &mut board, &mut ticks);
            }
            event = keys.next() => match event {
                Some(event) => match board.press(&event?, Instant::now()) {
                    Some(Wish::Quit) => return Ok(()),
                    Some(Wish::Order(order, route)) => {
                        requests.push(give(client, order, route).boxed_local());
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

fn take(news: News, board: &mut Board, ticks: &mut Interval) {
    match news {
        News::Figures(Ok(figures)) => board.learn(figures, Instant::now()),
        News::Figures(Err(error)) => board.lose(error),
        News::Ordered { route, order, result } => {
            board.ordered(&route, order, result.err(), Instant::now());
            ticks.reset_immediately(); // to see what came of it
        }
    }
}

async fn ask(client: &Client) -> Result<Vec<Figures>, ClientError> {
    figures::ask(client).await?.parse()
}

async fn figures(client: &Client) -> News {
    News::Figures(ask(client).await)
}

async fn give(client: &Client, order: Order, route: String) -> News {
    let result = route::give(order, &route, client).await.map(drop);
    News::Ordered { route, order, result }
}

fn ticks() -> Interval {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

//! `bezoar queues`: how many messages are where, how old, and what the routes do.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use anyhow::Result;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    client::{Client, Reply},
    figures::{self, Condition, Figures},
    output,
    table::{ALARM, Cell, Lean, Table, WARNING},
    words,
};

const EVERY: Duration = Duration::from_secs(2);
/// Back to the first place of the screen, and nothing after it.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

const COLUMNS: &[(&str, Lean)] = &[
    ("queue", Lean::Left),
    ("ready", Lean::Right),
    ("delayed", Lean::Right),
    ("in flight", Lean::Right),
    ("dead", Lean::Right),
    ("oldest ready", Lean::Right),
    ("oldest dead", Lean::Right),
    ("per second", Lean::Right),
    ("route", Lean::Left),
    ("state", Lean::Left),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    if arguments.watch {
        return watch(&arguments, client).await;
    }
    show(&arguments, &figures::ask(client).await?).map(drop)
}

/// Shows it again and again, also after the gateway was away for a while.
async fn watch(arguments: &Arguments, client: &Client) -> Result<()> {
    show(arguments, &figures::ask(client).await?)?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await; // the first comes at once
    loop {
        ticks.tick().await;
        let reads_on = match figures::ask(client).await {
            Ok(reply) => clear(arguments)? && show(arguments, &reply)?,
            Err(error) => {
                output::say(&format!("{:#}", anyhow::Error::new(error)));
                true
            }
        };
        if !reads_on {
            return Ok(());
        }
    }
}

fn clear(arguments: &Arguments) -> Result<bool> {
    match (arguments.json, io::stdout().is_terminal()) {
        (false, true) => output::print(CLEAR),
        (false, false) => output::print("\n"),
        (true, _) => Ok(true),
    }
}

fn show(arguments: &Arguments, reply: &Reply) -> Result<bool> {
    if arguments.json {
        return output::print_json(reply);
    }
    let all: Vec<Figures> = reply.parse()?;
    if all.is_empty() {
        output::say("there are no queues that you may see");
    }
    output::print(&table(&all).render())
}

fn table(all: &[Figures]) -> Table {
    let mut table = Table::new(COLUMNS);
    for figures in all {
        table.push([
            figures.queue.as_str().into(),
            words::count_or_unknown(figures.ready).into(),
            words::count_or_unknown(figures.delayed).into(),
            words::count_or_unknown(figures.in_flight).into(),
            dead(figures),
            figures.oldest_ready().into(),
            figures.oldest_dead().into(),
            figures.per_second().into(),
            figures.leads_to().into(),
            state(figures),
        ]);
    }
    table
}

fn dead(figures: &Figures) -> Cell {
    let text = words::count_or_unknown(figures.dead);
    if figures.dead > Some(0) { Cell::styled(&text, ALARM) } else { text.into() }
}

fn state(figures: &Figures) -> Cell {
    match figures.state() {
        (Condition::Fine, words) => words.into(),
        (Condition::HeldBack, words) => Cell::styled(&words, WARNING),
        (Condition::Down, words) => Cell::styled(&words, ALARM),
    }
}

//! `bezoar dead replay`: dead letters back to their queues.

mod plan;

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

use super::{
    follow, on_broker,
    operation::{self, Order, Told, begun},
    selection::{Pick, Selection},
};
use crate::{client::Client, output, prompt, reason, words::plural};

/// The fastest that a gateway takes.
const RATE_LIMIT: f64 = 1_000_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    manner: Manner,
    /// Only freeze the selection; started later with `bezoar dead replays ID --start`
    #[arg(long, conflicts_with_all = ["yes", "no_wait"])]
    plan: bool,
    /// Do not follow it to its end
    #[arg(long)]
    no_wait: bool,
    /// All that are still on the broker of a queue, which --queue names
    #[arg(long, conflicts_with_all = ["plan", "no_wait", "canary", "rate", "stop_after", "new_ids", "expect"])]
    on_broker: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// The gateway's JSON instead of words
    #[arg(long)]
    json: bool,
}

/// How they are sent.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct Manner {
    /// Why; the audit log keeps it
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// So many go first, and the rest only after all of them completed
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    canary: u32,
    /// At most so many a second, such as 20/s
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<f64>,
    /// Stop when so many have failed again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stop_after: Option<u32>,
    /// Give them new ids, for receivers that would pass over an id which they have seen
    #[arg(long)]
    new_ids: bool,
    /// Do nothing if another number of messages would take part
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
}

/// How a replay comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is only planned.
    Plan,
    /// It is planned, shown, and started if somebody says yes.
    Ask,
    /// It is started at once.
    Start,
}

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    let Arguments { selection, manner, plan, no_wait, on_broker, yes, json } = arguments;
    let pick = selection.pick();
    if on_broker {
        return on_broker::replay(client, &pick, &manner.reason, yes, json).await;
    }
    let way = match &pick {
        _ if plan => Way::Plan,
        Pick::Matching(_) if !yes && !prompt::is_possible() => bail!(
            "nobody can be asked here whether that many are meant; look first with --plan, or use --yes"
        ),
        Pick::Matching(_) if !yes => Way::Ask,
        _ => Way::Start,
    };
    let request = manner.request(&pick, way);
    let told = client.order("/v1/replays", &request.into()).await.and_then(Told::new);
    let told = begun(told)?;
    if told.operation.total == 0 {
        return nothing(client, &pick, told, json).await;
    }
    let told = match way {
        Way::Plan => return planned(&told, json),
        Way::Ask => confirmed(client, told, &manner.reason).await?,
        Way::Start => told,
    };
    match no_wait {
        true => started(&told, json),
        false => follow::to_the_end(client, told, json).await,
    }
}

impl Manner {
    fn request(&self, pick: &Pick, way: Way) -> Map<String, Value> {
        let mut request = pick.request(&self.reason);
        let mut put = |name: &str, value: Value| request.insert(name.to_owned(), value);
        put("canary", self.canary.into());
        put("new_ids", self.new_ids.into());
        put("plan", (way != Way::Start).into());
        self.rate.map(|rate| put("rate", json!(rate)));
        self.stop_after.map(|most| put("stop_after", most.into()));
        self.expect.map(|expected| put("expect", expected.into()));
        request
    }
}

/// There is nothing to do, and no plan for it need be kept.
async fn nothing(client: &Client, pick: &Pick, told: Told, json: bool) -> Result<()> {
    let Told { reply, operation } = told;
    if !operation.is_over() {
        operation::give(client, operation.id, Order::Cancel, "nothing takes part").await?;
    }
    if json {
        output::print_json(&reply)?;
    }
    match pick {
        Pick::Matching(_) if operation.refused == 0 => {
            output::say("no dead letters match: nothing is replayed");
            Ok(())
        }
        _ => bail!("nothing can be replayed; {}", plan::refused(operation.refused)),
    }
}

fn planned(told: &Told, json: bool) -> Result<()> {
    let id = told.operation.id;
    plan::describe(&told.operation).iter().for_each(|line| output::say(line));
    output::say(&format!("start it: bezoar dead replays {id} --start --reason TEXT"));
    print(told, json)
}

fn started(told: &Told, json: bool) -> Result<()> {
    let (id, name) = (told.operation.id, told.operation.name());
    output::say(&format!("{name} goes on by itself; look with `bezoar dead replays {id}`"));
    print(told, json)
}

/// For programs: the id, or all of it.
fn print(told: &Told, json: bool) -> Result<()> {
    match json {
        true => output::print_json(&told.reply).map(drop),
        false => output::print(&format!("{}\n", told.operation.id)).map(drop),
    }
}

/// Starts what is planned, if somebody says yes.
async fn confirmed(client: &Client, told: Told, reason: &str) -> Result<Told> {
    let operation = &told.operation;
    plan::describe(operation).iter().for_each(|line| output::say(line));
    let question = format!("Replay {}?", plural(operation.total, "message"));
    if prompt::confirm(&question).await? {
        return begun(operation::give(client, operation.id, Order::Run, reason).await);
    }
    operation::give(client, operation.id, Order::Cancel, "not confirmed").await?;
    bail!("nothing was replayed; the plan was cancelled")
}

/// `20/s`, `20` or `0.5/s`
fn rate(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().trim_end_matches("/s").trim_end().parse::<f64>();
    let rate = number.ok().filter(|rate| *rate > 0.0 && *rate <= RATE_LIMIT);
    rate.ok_or("write how many a second, such as 20/s or 0.5/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_so_many_a_second() {
        for (text, expected) in [("20/s", 20.0), ("0.5 /s", 0.5), ("7", 7.0)] {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "/s", "0", "-1/s", "inf", "NaN", "5/m", "2000000/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}

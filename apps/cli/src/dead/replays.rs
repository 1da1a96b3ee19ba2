//! `bezoar dead replays`: lists replays and discards, and starts, pauses, resumes or cancels one.

use anyhow::Result;
use bezoar::{Clock, SystemClock, catalogue::OperationId};
use bezoar_gateway::api_types::{OperationItem, OperationState, Page};
use jiff::Timestamp;

use super::{
    follow,
    operation::{self, Operation, OperationCommand, OperationReply, OperationText},
    outcomes,
};
use crate::{
    client::ApiClient,
    complete, humanize, output, reason,
    table::{Cell, Column, Table, Tone},
};

const COLUMNS: &[Column] = &[
    Column::text("id"),
    Column::text("kind").drops(2),
    Column::text("state"),
    Column::number("messages"),
    Column::number("done").drops(3),
    Column::number("completed").drops(4),
    Column::number("failed again"),
    Column::number("age").drops(5),
    Column::text("who").shrinks_to(8).drops(1),
    Column::text("reason").shrinks_to(12),
];

const ITEM_COLUMNS: &[Column] = &[
    Column::number("position").drops(1),
    Column::text("dead letter"),
    Column::text("queue").shrinks_to(8).drops(2),
    Column::text("message").shrinks_to(12).drops(4),
    Column::text("state"),
    Column::text("new dead letter"),
    Column::text("cause").drops(3),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of a replay or discard [default: list all of them]
    #[arg(add = complete::operations())]
    id: Option<OperationId>,
    /// Start this planned operation; requires --reason
    #[arg(long, group = "order", requires_all = ["id", "reason"])]
    start: bool,
    /// Pause this operation until it is resumed; requires --reason
    #[arg(long, group = "order", requires_all = ["id", "reason"])]
    pause: bool,
    /// Resume this paused or stopped operation; requires --reason
    #[arg(long, group = "order", requires_all = ["id", "reason"])]
    resume: bool,
    /// Cancel this operation and release the remaining dead letters; requires --reason
    #[arg(long, group = "order", requires_all = ["id", "reason"])]
    cancel: bool,
    /// Reason to start, pause, resume or cancel, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse, requires = "order")]
    reason: Option<String>,
    /// Wait until this operation ends
    #[arg(long, requires = "id", conflicts_with_all = ["pause", "cancel"])]
    wait: bool,
    /// List the outcome of each message of this operation
    #[arg(long, requires = "id", conflicts_with_all = ["order", "wait"])]
    messages: bool,
    /// Print the gateway's JSON instead of text; with --messages one object per line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let json = arguments.json;
    let Some(id) = arguments.id.map(|id| id.to_string()) else { return list(client, json).await };
    if arguments.messages {
        return messages(client, &id, json).await;
    }
    let order = arguments.order().zip(arguments.reason.as_deref());
    let reply = match order {
        Some((order, reason)) => operation::send_command(client, &id, order, reason).await?,
        None => operation::fetch(client, &id).await?,
    };
    match (arguments.wait, json, order) {
        (true, _, _) => follow::to_the_end(client, reply, json).await,
        (_, true, _) => output::print_json(&reply.reply).map(drop),
        (_, _, Some(_)) => {
            ordered(&reply.operation);
            Ok(())
        }
        _ => show(client, &reply).await,
    }
}

impl Arguments {
    fn order(&self) -> Option<OperationCommand> {
        match (self.start || self.resume, self.pause, self.cancel) {
            (true, ..) => Some(OperationCommand::Run),
            (_, true, _) => Some(OperationCommand::Pause),
            (.., true) => Some(OperationCommand::Cancel),
            _ => None,
        }
    }
}

async fn list(client: &ApiClient, json: bool) -> Result<()> {
    let mut operations = Vec::new();
    for path in ["/v1/replays", "/v1/discards"] {
        let page: Page<Operation> = client.get(path).await?.parse()?;
        operations.extend(page.items);
    }
    operations.sort_by_key(|operation| std::cmp::Reverse(operation.planned_at));
    if json {
        let page = Page { items: operations, next: None };
        return output::print(&format!("{}\n", serde_json::to_string(&page)?)).map(drop);
    }
    if operations.is_empty() {
        output::say("no replays or discards yet");
        return Ok(());
    }
    output::print_table(&table(&operations, SystemClock.now())).map(drop)
}

/// A row for each operation.
pub(crate) fn table(operations: &[Operation], now: Timestamp) -> Table {
    let mut table = Table::new(COLUMNS);
    let outcome = |known: Option<u64>| known.map_or(humanize::NONE.to_owned(), humanize::count);
    for operation in operations {
        table.push([
            operation.id.as_str().into(),
            operation.kind.as_str().into(),
            state(operation),
            humanize::count(operation.total).into(),
            humanize::count(operation.processed).into(),
            outcome(operation.completed).into(),
            outcome(operation.failed).into(),
            humanize::age_of(operation.planned_at, now).into(),
            operation.actor.as_str().into(),
            operation.reason.as_str().into(),
        ]);
    }
    table
}

fn state(operation: &Operation) -> Cell {
    match operation.state {
        OperationState::Stopped => Cell::toned(operation.state.as_str(), Tone::Alarm),
        state => state.as_str().into(),
    }
}

fn ordered(operation: &Operation) {
    let then = match operation.state {
        OperationState::Running => {
            format!("; follow with `bezoar dead replays {} --wait`", operation.id)
        }
        OperationState::Cancelled => "; the remaining dead letters are released".to_owned(),
        _ => String::new(),
    };
    let has = matches!(operation.state, OperationState::Ended | OperationState::Stopped);
    let is = if has { "has" } else { "is" };
    output::say(&format!("{} {is} {}{then}", operation.name(), operation.state));
}

async fn show(client: &ApiClient, reply: &OperationReply) -> Result<()> {
    let operation = &reply.operation;
    output::print(&facts(operation).render())?;
    if operation.failed > Some(0) {
        output::print("failed again\n")?;
        for line in outcomes::failures(client, operation).await? {
            output::print(&format!("{}\n", output::printable(&line)))?;
        }
    }
    output::hint(&format!("list each message: bezoar dead replays {} --messages", operation.id));
    Ok(())
}

fn facts(operation: &Operation) -> Table {
    let why =
        operation.stop_reason.as_ref().map(|why| format!(" because {why}")).unwrap_or_default();
    let queues = operation.queues.iter();
    let queues: Vec<_> =
        queues.map(|it| format!("{} ({})", it.queue, humanize::count(it.count))).collect();
    let mut facts = Table::of_facts();
    let mut fact = |label: &str, text: String| facts.push([label.into(), text.into()]);
    fact(operation.kind.as_str(), operation.id.clone());
    fact("state", format!("{}{why}", operation.state));
    fact("planned", format!("{} by {}", humanize::moment(operation.planned_at), operation.actor));
    fact("reason", operation.reason.clone());
    fact("queues", if queues.is_empty() { humanize::NONE.to_owned() } else { queues.join(", ") });
    fact("progress", operation.progress());
    fact("not included", left_out(operation));
    if operation.is_replay() {
        let new = operation.new_ids == Some(true);
        fact("ids", if new { "new" } else { "unchanged" }.to_owned());
        let canary = operation.canary.filter(|canary| *canary > 0);
        fact("canary", canary.map_or(humanize::NONE.to_owned(), humanize::count));
        let rate = operation.rate.map(|rate| format!("at most {rate} per second"));
        fact("rate", rate.unwrap_or_else(|| humanize::NONE.to_owned()));
        fact(
            "stops after",
            operation.stop_after.map_or(humanize::NONE.to_owned(), humanize::count),
        );
    }
    facts
}

/// `4 (1 held by operation op_y0ppfhjp, 2 held by operation op_77ncnddj)`
fn left_out(operation: &Operation) -> String {
    let held = operation.held.iter();
    let held =
        held.map(|it| format!("{} held by operation {}", humanize::count(it.count), it.operation));
    let held: Vec<_> = held.collect();
    let count = humanize::count(operation.refused);
    if held.is_empty() { count } else { format!("{count} ({})", held.join(", ")) }
}

/// Prints all messages, a page at a time.
async fn messages(client: &ApiClient, id: &str, json: bool) -> Result<()> {
    let mut after = Some("0".to_owned());
    while let Some(position) = after {
        let Page { items: messages, next } = outcomes::page(client, id, &position).await?;
        let reads_on = match json {
            true => output::print(&lines(&messages)?)?,
            false => output::print_table(&items(&messages))?,
        };
        after = next.filter(|_| reads_on);
    }
    Ok(())
}

fn lines(items: &[OperationItem]) -> Result<String> {
    let line = |item: &OperationItem| Ok(serde_json::to_string(item)? + "\n");
    items.iter().map(line).collect()
}

fn items(items: &[OperationItem]) -> Table {
    let mut table = Table::new(ITEM_COLUMNS);
    for item in items {
        table.push([
            item.position.to_string().into(),
            item.dead_letter.as_str().into(),
            item.queue.as_str().into(),
            item.message_id.as_str().into(),
            item.state.to_string().into(),
            item.new_dead_letter.as_deref().unwrap_or_default().into(),
            item.cause.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

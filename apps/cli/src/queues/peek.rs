//! `bezoar queues peek`: messages in a queue, without taking them.

use anyhow::Result;
use bezoar::QueueName;
use bezoar_gateway::api_types::{Page, QueuedMessage};
use clap::ValueEnum;

use crate::{
    client::{ApiClient, encode, path},
    complete,
    humanize::{self, count},
    output,
    table::{Column, Table},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Queue to look into
    #[arg(add = complete::queues())]
    queue: QueueName,
    /// State of the messages
    #[arg(long, value_enum, default_value_t = PeekState::Waiting)]
    state: PeekState,
    /// Maximum number of messages to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the `next` of an earlier list
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Print the gateway's JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PeekState {
    Waiting,
    Delayed,
    Leased,
}

pub(super) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let reply = client.get(&arguments.path()).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let page: Page<QueuedMessage> = reply.parse()?;
    if page.items.is_empty() {
        output::say(&format!("no messages are {} in {}", arguments.state(), arguments.queue));
        return Ok(());
    }
    output::print_table(&table(&page.items))?;
    if let Some(next) = &page.next {
        output::hint(&format!("more with --after {}", output::printable(next)));
    }
    Ok(())
}

impl Arguments {
    fn state(&self) -> &'static str {
        match self.state {
            PeekState::Waiting => "waiting",
            PeekState::Delayed => "delayed",
            PeekState::Leased => "leased",
        }
    }

    fn path(&self) -> String {
        let after = self.after.as_ref().map(|after| format!("&after={}", encode(after)));
        let messages = path(["v1", "queues", self.queue.as_str(), "messages"]);
        let (state, after) = (self.state(), after.unwrap_or_default());
        format!("{messages}?state={state}&limit={}{after}", self.limit)
    }
}

const COLUMNS: &[Column] = &[
    Column::text("message"),
    Column::text("type").shrinks_to(10).drops(3),
    Column::text("due"),
    Column::number("deliveries").drops(2),
    Column::number("failed").drops(4),
    Column::number("bytes"),
    Column::text("headers").shrinks_to(10).drops(1),
];

fn table(messages: &[QueuedMessage]) -> Table {
    let mut table = Table::new(COLUMNS);
    for message in messages {
        table.push([
            message.message_id.as_str().into(),
            message.r#type.as_str().into(),
            humanize::moment(message.due_at).into(),
            count(message.deliveries).into(),
            count(message.attempts).into(),
            count(message.body_bytes).into(),
            message.header_names.join(", ").into(),
        ]);
    }
    table
}

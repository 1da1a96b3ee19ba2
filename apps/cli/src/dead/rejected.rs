//! `bezoar dead rejected`: why messages were rejected, for queues whose dead letters stay on the broker.

use anyhow::Result;
use bezoar_gateway::api_types::{Page, Rejection};

use super::timeline;
use crate::{
    client::{ApiClient, encode},
    humanize, output,
    table::Table,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only messages with this id
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    /// Only messages with this correlation id
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Only messages of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Maximum number of messages to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let reply = client.get(&arguments.path()).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let Page { items: rejections, .. } = reply.parse::<Page<Rejection>>()?;
    if rejections.is_empty() {
        output::say("no messages were rejected within the last 30 days");
        return Ok(());
    }
    let described: Vec<_> = rejections.iter().map(describe).collect();
    output::print(&described.join("\n")).map(drop)
}

impl Arguments {
    fn path(&self) -> String {
        let pairs = [
            ("message_id", &self.message_id),
            ("correlation_id", &self.correlation_id),
            ("queue", &self.queue),
        ];
        let given = pairs.iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        let query: String = given.map(|(name, text)| format!("&{name}={}", encode(text))).collect();
        format!("/v1/rejections?limit={}{query}", self.limit)
    }
}

fn describe(rejection: &Rejection) -> String {
    let mut facts = Table::of_facts();
    let correlation_id = rejection.correlation_id.as_deref().unwrap_or(humanize::NONE);
    for (label, fact) in [
        ("message", rejection.message_id.clone()),
        ("queue", rejection.queue.clone()),
        ("type", rejection.r#type.clone()),
        ("correlation id", correlation_id.to_owned()),
        ("rejected", humanize::moment(rejection.rejected_at)),
        ("reason", rejection.reason.clone()),
        ("attempts", humanize::count(rejection.attempts)),
    ] {
        facts.push([label.into(), fact.into()]);
    }
    format!("{}\n{}", facts.render(), output::fitted(&timeline::tries(&rejection.history)))
}

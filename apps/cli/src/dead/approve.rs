//! `bezoar dead approve`: a second person's approval of an edited version.

use anyhow::Result;
use bezoar::DeadLetterId;
use bezoar_gateway::api_types::{DeadLetterSummary, ReasonRequest};

use super::abbreviation::Abbreviated;
use crate::{
    client::{ApiClient, path},
    complete, output, reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of the edited version
    #[arg(value_parser = super::dead_letter::id, add = complete::dead_letters())]
    id: Abbreviated<DeadLetterId>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let id = arguments.id.resolve(client).await?;
    let path = path(["v1", "dead-letters", &id.to_string(), "approve"]);
    let reply = client.order(&path, &ReasonRequest { reason: arguments.reason }).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let dead: DeadLetterSummary = reply.parse()?;
    let next = format!("replay it with: bezoar dead replay {} --reason TEXT", dead.id);
    output::say(&format!("approved dead letter {}; {next}", dead.id));
    Ok(())
}

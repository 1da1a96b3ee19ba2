//! `bezoar dead ack`: marks a cause.

use anyhow::Result;
use bezoar::catalogue::CauseId;
use bezoar_gateway::api_types::{Cause, CauseMark, MarkCauseRequest};

use super::{abbreviation::Abbreviated, filter};
use crate::{
    client::{ApiClient, path},
    complete, output,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of the cause, as shown by `bezoar dead causes`
    #[arg(value_parser = filter::cause, add = complete::causes())]
    cause: Abbreviated<CauseId>,
    /// Note for others
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// Mark the cause as resolved; it shows as regressed if it occurs again
    #[arg(long)]
    resolved: bool,
    /// Mark the cause as open again
    #[arg(long, conflicts_with = "resolved")]
    reopen: bool,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let mark = MarkCauseRequest { state: arguments.mark(), note: Some(arguments.note.clone()) };
    let cause = arguments.cause.resolve(client).await?;
    let reply = client.order(&path(["v1", "causes", cause.as_str()]), &mark).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let cause: Cause = reply.parse()?;
    output::say(&format!("{} is {}: {}", cause.id, cause.state, cause.title));
    Ok(())
}

impl Arguments {
    fn mark(&self) -> CauseMark {
        match (self.resolved, self.reopen) {
            (true, _) => CauseMark::Resolved,
            (_, true) => CauseMark::Open,
            _ => CauseMark::Acknowledged,
        }
    }
}

//! `bezoar dead discard`: dead letters removed for good.

use anyhow::{Result, bail};
use serde::Deserialize;

use super::{
    filter::Filter,
    follow, on_broker,
    operation::{self, OperationCommand, OperationReply, begun},
    selection::{Selection, SelectionArguments},
};
use crate::{
    client::{ApiClient, ApiReply, ClientError},
    humanize::{Count, count, plural},
    output, prompt, reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    /// Why; the audit log keeps it
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// How many there must be; otherwise nothing is discarded
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// All that are still on the broker of a queue, which --queue names
    #[arg(long)]
    on_broker: bool,
    /// Do not ask
    #[arg(long, requires = "expect")]
    yes: bool,
    /// The gateway's JSON instead of words
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { selection, reason, expect, on_broker, yes, json } = arguments;
    let selection = selection.parse();
    if on_broker {
        return on_broker::discard(client, &selection, &reason, (expect, yes), json).await;
    }
    let number = match (expect, yes) {
        (Some(expected), true) => expected,
        _ if !prompt::is_possible() => bail!(
            "nobody can be asked here; say how many there are with --yes --expect N, \
             `bezoar dead list` with the same filters tells"
        ),
        _ => confirmed(client, &selection, &reason, expect).await?,
    };
    let reply =
        begun(send(client, &selection, &reason, number).await.and_then(OperationReply::new))?;
    if reply.operation.total == 0 {
        return nothing(client, &reply).await;
    }
    follow::to_the_end(client, reply, json).await
}

async fn send(
    client: &ApiClient,
    selection: &Selection,
    reason: &str,
    expect: u64,
) -> Result<ApiReply, ClientError> {
    let mut request = selection.request(reason);
    request.insert("expect".to_owned(), expect.into());
    client.order("/v1/discards", &request.into()).await
}

/// There is nothing to do, and no plan for it need be kept.
async fn nothing(client: &ApiClient, reply: &OperationReply) -> Result<()> {
    if !reply.operation.is_over() {
        operation::send_command(
            client,
            reply.operation.id,
            OperationCommand::Cancel,
            "nothing takes part",
        )
        .await?;
    }
    output::say("nothing is discarded: there is nothing that could be");
    Ok(())
}

/// How many are meant, typed by somebody who has read it.
async fn confirmed(
    client: &ApiClient,
    selection: &Selection,
    reason: &str,
    expect: Option<u64>,
) -> Result<u64> {
    let number = match selection {
        Selection::Ids(ids) => ids.len() as u64,
        Selection::Matching(filter) => number(client, filter, selection, reason).await?,
    };
    if number == 0 {
        bail!("nothing is discarded: no dead letters match that could be");
    }
    if let Some(expected) = expect.filter(|expected| *expected != number) {
        bail!("there are {}, not {}", plural(number, "dead letter"), count(expected));
    }
    typed(number).await?;
    Ok(number)
}

/// Has somebody type how many are removed.
pub(super) async fn typed(number: u64) -> Result<()> {
    let (letters, typed) = (plural(number, "dead letter"), count(number));
    output::say(&format!("{letters} would be removed for good: nothing brings them back"));
    let answer = prompt::ask(&format!("Type {typed} to discard them: ")).await?;
    if answer.replace(',', "") != number.to_string() {
        bail!("nothing was discarded");
    }
    Ok(())
}

/// Exactly how many would take part.
async fn number(
    client: &ApiClient,
    filter: &Filter,
    selection: &Selection,
    reason: &str,
) -> Result<u64> {
    #[derive(Deserialize)]
    struct Listed {
        matching: Count,
    }
    let path = format!("/v1/dead-letters?limit=1{}", filter.query_of_open());
    let Listed { matching } = client.get(&path).await?.parse()?;
    if matching.exact {
        return Ok(matching.count);
    }
    // Beyond what is counted for a list the gateway counts only what it is about to do. Told to expect none, it
    // does nothing, and says how many there are.
    match send(client, selection, reason, 0).await {
        Err(ClientError::Refused(problem)) if problem.found.is_some() => {
            Ok(problem.found.unwrap_or_default())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(0),
    }
}

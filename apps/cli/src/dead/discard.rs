//! `bezoar dead discard`: dead letters removed for good.

use anyhow::{Result, bail};
use serde::Deserialize;

use super::{
    filter::Filter,
    follow, on_broker,
    operation::{self, Order, Told, begun},
    selection::{Pick, Selection},
};
use crate::{
    client::{Client, ClientError, Reply},
    output, prompt, reason,
    words::{Count, count, plural},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
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

pub(crate) async fn run(arguments: Arguments, client: &Client) -> Result<()> {
    let Arguments { selection, reason, expect, on_broker, yes, json } = arguments;
    let pick = selection.pick();
    if on_broker {
        return on_broker::discard(client, &pick, &reason, (expect, yes), json).await;
    }
    let number = match (expect, yes) {
        (Some(expected), true) => expected,
        _ if !prompt::is_possible() => bail!(
            "nobody can be asked here; say how many there are with --yes --expect N, \
             `bezoar dead list` with the same filters tells"
        ),
        _ => confirmed(client, &pick, &reason, expect).await?,
    };
    let told = begun(send(client, &pick, &reason, number).await.and_then(Told::new))?;
    if told.operation.total == 0 {
        return nothing(client, &told).await;
    }
    follow::to_the_end(client, told, json).await
}

async fn send(
    client: &Client,
    pick: &Pick,
    reason: &str,
    expect: u64,
) -> Result<Reply, ClientError> {
    let mut request = pick.request(reason);
    request.insert("expect".to_owned(), expect.into());
    client.order("/v1/discards", &request.into()).await
}

/// There is nothing to do, and no plan for it need be kept.
async fn nothing(client: &Client, told: &Told) -> Result<()> {
    if !told.operation.is_over() {
        operation::give(client, told.operation.id, Order::Cancel, "nothing takes part").await?;
    }
    output::say("nothing is discarded: there is nothing that could be");
    Ok(())
}

/// How many are meant, typed by somebody who has read it.
async fn confirmed(client: &Client, pick: &Pick, reason: &str, expect: Option<u64>) -> Result<u64> {
    let number = match pick {
        Pick::Ids(ids) => ids.len() as u64,
        Pick::Matching(filter) => number(client, filter, pick, reason).await?,
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
async fn number(client: &Client, filter: &Filter, pick: &Pick, reason: &str) -> Result<u64> {
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
    match send(client, pick, reason, 0).await {
        Err(ClientError::Refused(problem)) if problem.found.is_some() => {
            Ok(problem.found.unwrap_or_default())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(0),
    }
}

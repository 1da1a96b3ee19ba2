//! `bezoar dead discard`: removes dead letters for good.

use std::time::Duration;

use anyhow::{Result, bail};
use bezoar_gateway::api_types::{DeadLetterPage, DiscardRequest};

use super::{
    filter::Filter,
    follow, on_broker,
    operation::{self, Operation, OperationCommand, OperationReply, OperationText, begun},
    selection::{Selection, SelectionArguments},
};
use crate::{
    client::{ApiClient, ApiReply, ClientError},
    duration,
    humanize::{count, plural},
    output, prompt, reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: SelectionArguments,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    /// Discard nothing unless exactly N dead letters are selected; required with --yes
    #[arg(long, value_name = "N")]
    expect: Option<u64>,
    /// Leave out dead letters that another replay or discard holds, instead of refusing to start
    #[arg(long)]
    skip_held: bool,
    /// Discard all dead letters that the broker keeps; requires --queue
    #[arg(long, conflicts_with = "skip_held")]
    on_broker: bool,
    /// How long to repeat the request if its answer is lost or the gateway is busy; it starts only once [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s", hide_default_value = true)]
    retry_for: Duration,
    /// Do not ask for confirmation
    #[arg(long, requires = "expect")]
    yes: bool,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What to discard, whatever the number.
#[derive(Debug)]
struct Discard {
    selection: Selection,
    reason: String,
    skip_held: bool,
    retry_for: Duration,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { selection, reason, expect, skip_held, on_broker, retry_for, yes, json } =
        arguments;
    let selection = selection.resolve(client).await?;
    if on_broker {
        return on_broker::discard(client, &selection, &reason, (expect, yes), json).await;
    }
    let discard = Discard { selection, reason, skip_held, retry_for };
    let reply = match (expect, yes) {
        (Some(expected), true) => discard.start(client, expected).await?,
        _ if !prompt::is_possible() => bail!(
            "no terminal to confirm on; pass --yes --expect N, where N is the number that \
             `bezoar dead list` reports for the same filters"
        ),
        _ if discard.skip_held => planned(client, &discard, expect).await?,
        _ => discard.start(client, confirmed(client, &discard, expect).await?).await?,
    };
    if reply.operation.total == 0 {
        return nothing(client, &reply).await;
    }
    follow::to_the_end(client, reply, json).await
}

impl Discard {
    fn request(&self, expect: Option<u64>) -> DiscardRequest {
        let (ids, filter) = self.selection.request();
        let (reason, skip_held) = (self.reason.clone(), self.skip_held);
        DiscardRequest { reason, ids, filter, expect, skip_held, plan: false }
    }

    async fn start(&self, client: &ApiClient, expect: u64) -> Result<OperationReply> {
        let sent = self.send(client, &self.request(Some(expect))).await;
        let reply = begun(sent.and_then(OperationReply::new))?;
        say_held(&reply);
        Ok(reply)
    }

    async fn send(
        &self,
        client: &ApiClient,
        request: &DiscardRequest,
    ) -> Result<ApiReply, ClientError> {
        client.start("/v1/discards", request, self.retry_for).await
    }

    /// The exact number that would be discarded. A discard that expects 0 changes nothing and reports it.
    async fn exact_number(&self, client: &ApiClient) -> Result<u64> {
        match self.send(client, &self.request(Some(0))).await {
            Err(ClientError::Refused(problem)) if problem.found.is_some() => {
                Ok(problem.found.unwrap_or_default())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(0),
        }
    }
}

fn say_held(reply: &OperationReply) {
    reply.operation.held().iter().for_each(|line| output::say(line));
}

/// Plans the discard, so that those who are asked know which operations hold the rest, and starts it after confirmation.
async fn planned(
    client: &ApiClient,
    discard: &Discard,
    expect: Option<u64>,
) -> Result<OperationReply> {
    let request = DiscardRequest { plan: true, ..discard.request(expect) };
    let reply = begun(discard.send(client, &request).await.and_then(OperationReply::new))?;
    say_held(&reply);
    let Operation { id, total, .. } = &reply.operation;
    if *total == 0 {
        return Ok(reply);
    }
    if let Err(declined) = typed(*total).await {
        operation::send_command(client, id, OperationCommand::Cancel, "not confirmed").await?;
        return Err(declined);
    }
    begun(operation::send_command(client, id, OperationCommand::Run, &discard.reason).await)
}

/// Nothing is selected: cancels the empty plan.
async fn nothing(client: &ApiClient, reply: &OperationReply) -> Result<()> {
    if !reply.operation.is_over() {
        operation::send_command(
            client,
            &reply.operation.id,
            OperationCommand::Cancel,
            "nothing selected",
        )
        .await?;
    }
    output::say("nothing was discarded: no dead letters can be discarded");
    Ok(())
}

/// The number of dead letters, after somebody confirmed it by typing it.
async fn confirmed(client: &ApiClient, discard: &Discard, expect: Option<u64>) -> Result<u64> {
    let number = match &discard.selection {
        Selection::Matching(filter) if is_none(client, filter).await? => 0,
        // Fails before anybody is asked if other operations hold some of them.
        _ => discard.exact_number(client).await?,
    };
    if number == 0 {
        bail!("nothing was discarded: no dead letters match");
    }
    if let Some(expected) = expect.filter(|expected| *expected != number) {
        bail!("found {}, expected {}", plural(number, "dead letter"), count(expected));
    }
    typed(number).await?;
    Ok(number)
}

/// Asks somebody to confirm by typing the number.
pub(super) async fn typed(number: u64) -> Result<()> {
    let (letters, typed) = (plural(number, "dead letter"), count(number));
    output::say(&format!("this removes {letters} for good and cannot be undone"));
    let answer = prompt::ask(&format!("Type {typed} to discard them: ")).await?;
    if answer.replace(',', "") != number.to_string() {
        bail!("nothing was discarded");
    }
    Ok(())
}

/// Whether a filter selects nothing: then there is nothing to plan.
async fn is_none(client: &ApiClient, filter: &Filter) -> Result<bool> {
    let path = format!("/v1/dead-letters?limit=1{}", filter.query_of_open());
    let DeadLetterPage { matching, .. } = client.get(&path).await?.parse()?;
    Ok(matching.count == 0)
}

//! `bezoar dead edit`: creates a new version of a dead letter; the original is kept.

mod change;
mod editor;

use anyhow::Result;
use bezoar::DeadLetterId;
use bezoar_gateway::api_types::{DeadLetterState, DeadLetterSummary};
use secrecy::SecretString;
use std::path::PathBuf;

use self::{change::BodyChange, editor::EditedBody};
use super::abbreviation::Abbreviated;
use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    complete, output, prompt, reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Id of the dead letter, as shown by `bezoar dead list`
    #[arg(value_parser = super::dead_letter::id, add = complete::dead_letters())]
    id: Abbreviated<DeadLetterId>,
    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    #[command(flatten)]
    change: ChangeArguments,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What to change. Without any of these the body is opened in $VISUAL or $EDITOR.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct ChangeArguments {
    /// New body: a file, or - for stdin
    #[arg(long, value_name = "FILE|-")]
    body_file: Option<PathBuf>,
    /// JSON patch (RFC 6902) for a JSON body: a file, or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with = "body_file")]
    patch: Option<PathBuf>,
    /// Header to set; may be repeated
    #[arg(long = "header", value_name = "K=V", value_parser = change::sensitive)]
    headers: Vec<SecretString>,
    /// Header to remove; may be repeated
    #[arg(long = "remove-header", value_name = "K")]
    removed: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { id, reason, change, json } = arguments;
    let change = BodyChange::read(&change)?;
    let id = id.resolve(client).await?;
    if let Some(change) = change {
        return done(&send(client, id, &reason, &change).await?, json);
    }
    if !prompt::is_possible() {
        change::misused(
            "no terminal for an editor; pass --body-file, --patch, --header or --remove-header",
        );
    }
    let Some(edited) = EditedBody::open(client, id, &reason).await? else {
        output::say("no changes, no new version created");
        return Ok(());
    };
    match send(client, id, &reason, &BodyChange::of_body(edited.body())).await {
        Ok(reply) => done(&reply, json),
        Err(error) => Err(edited.keep(error.into())),
    }
}

async fn send(
    client: &ApiClient,
    id: DeadLetterId,
    reason: &str,
    change: &BodyChange,
) -> Result<ApiReply, ClientError> {
    let path = path(["v1", "dead-letters", &id.to_string(), "edits"]);
    client.order(&path, &change.request(reason)).await
}

fn done(reply: &ApiReply, json: bool) -> Result<()> {
    if json {
        return output::print_json(reply).map(drop);
    }
    let version: DeadLetterSummary = reply.parse()?;
    let id = output::printable(&version.id);
    output::print(&format!("{id}\n"))?;
    output::say(&match version.state {
        DeadLetterState::Unapproved => format!(
            "created dead letter {id}; someone else must approve it with: bezoar dead approve {id} --reason TEXT"
        ),
        _ => format!(
            "created dead letter {id}; replay it with: bezoar dead replay {id} --reason TEXT"
        ),
    });
    Ok(())
}

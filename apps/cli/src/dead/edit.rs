//! `bezoar dead edit`: a new version of a dead letter; the original stays.

mod change;
mod editor;

use anyhow::Result;
use secrecy::SecretString;
use std::path::PathBuf;

use self::{change::BodyChange, editor::EditedBody};
use super::dead_letter::DeadLetterSummary;
use crate::{
    client::{ApiClient, ApiReply, ClientError, path},
    output, prompt, reason,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The dead letter's number, as `bezoar dead list` shows it
    #[arg(allow_negative_numbers = true)]
    id: i64,
    /// Why; the audit log keeps it
    #[arg(long, value_name = "TEXT", value_parser = reason::parse)]
    reason: String,
    #[command(flatten)]
    change: ChangeArguments,
    /// The gateway's JSON instead of words
    #[arg(long)]
    json: bool,
}

/// What is different. Without any of it the body is opened in $VISUAL or $EDITOR.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct ChangeArguments {
    /// Another body: a file, or - for stdin
    #[arg(long, value_name = "FILE|-")]
    body_file: Option<PathBuf>,
    /// Changes of a JSON body, as of RFC 6902: a file, or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with = "body_file")]
    patch: Option<PathBuf>,
    /// A header with its new value; can be given more than once
    #[arg(long = "header", value_name = "K=V", value_parser = change::sensitive)]
    headers: Vec<SecretString>,
    /// A header to remove; can be given more than once
    #[arg(long = "remove-header", value_name = "K")]
    removed: Vec<String>,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let Arguments { id, reason, change, json } = arguments;
    if let Some(change) = BodyChange::read(&change)? {
        return done(&send(client, id, &reason, &change).await?, json);
    }
    if !prompt::is_possible() {
        change::misused(
            "say what is different: --body-file, --patch, --header or --remove-header; an editor needs a terminal",
        );
    }
    let Some(edited) = EditedBody::open(client, id, &reason).await? else {
        output::say("nothing was changed, so there is no new version");
        return Ok(());
    };
    match send(client, id, &reason, &BodyChange::of_body(edited.body())).await {
        Ok(reply) => done(&reply, json),
        Err(error) => Err(edited.keep(error.into())),
    }
}

async fn send(
    client: &ApiClient,
    id: i64,
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
    let id = version.id;
    output::print(&format!("{id}\n"))?;
    output::say(&match version.state.as_deref() {
        Some("unapproved") => format!(
            "dead letter {id} is the new version; somebody else must approve it: bezoar dead approve {id} \
             --reason TEXT"
        ),
        _ => format!(
            "dead letter {id} is the new version; send it: bezoar dead replay {id} --reason TEXT"
        ),
    });
    Ok(())
}

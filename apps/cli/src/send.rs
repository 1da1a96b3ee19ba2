//! `bezoar send`: sends one message, or every line of an input as a message.

mod batch;
mod batch_outcome;
mod body_source;
mod envelope;
mod failed_lines;
mod lines;
mod progress;
mod send_lines;
mod summary;

use std::{path::PathBuf, sync::Once, time::Duration};

use anyhow::Result;
use bezoar::{Clock, MessageId, QueueName, SystemClock};
use bezoar_gateway::api_types::AcceptedMessage;
use bytes::Bytes;
use clap::error::ErrorKind;
use secrecy::SecretString;

use self::{body_source::BodySource, envelope::Envelope};
use crate::{
    client::{ApiClient, ApiReply, ClientError, Retry, path},
    complete, duration, humanize, output,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Queue to send to
    #[arg(add = complete::queues())]
    queue: QueueName,
    /// Body: a file, or - for stdin [default: stdin, unless it is a terminal]
    #[arg(value_name = "FILE|-", conflicts_with = "body")]
    file: Option<PathBuf>,
    /// Body as text
    #[arg(long, value_name = "TEXT", value_parser = envelope::sensitive)]
    body: Option<SecretString>,
    /// Send every non-empty line as a message. Lines are sent concurrently, so their order is not
    /// preserved. Ids are printed unless stdout is a terminal
    #[arg(long)]
    lines: bool,
    /// Message id; sending the same id again to the same queue within 24 hours has no effect. With
    /// --lines it is a prefix: the first line gets ID-1
    #[arg(long)]
    id: Option<MessageId>,
    #[command(flatten)]
    envelope: envelope::Arguments,
    /// How long to retry if the gateway is busy or unreachable [default: 30s; a gateway that was never reached is not
    /// waited for]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    retry_for: Option<Duration>,
    /// Print JSON instead of bare ids; with --lines one object per line
    #[arg(long)]
    json: bool,
}

/// Sends messages that differ only in id and body.
struct Sender<'a> {
    client: &'a ApiClient,
    queue: QueueName,
    id: Option<MessageId>,
    envelope: Envelope,
    patience: Patience,
}

/// How long a failed request is repeated.
#[derive(Debug)]
struct Patience {
    limit: Duration,
    /// Whether a gateway that never answered is waited for.
    waits_for_start: bool,
    announced: Once,
}

impl Patience {
    const DEFAULT: Duration = Duration::from_secs(30);

    /// Waiting for a gateway that nobody started would only hide the mistake, so it must be asked for.
    fn new(asked: Option<Duration>) -> Self {
        let limit = asked.unwrap_or(Self::DEFAULT);
        Self { limit, waits_for_start: asked.is_some(), announced: Once::new() }
    }

    /// Whether the request is repeated. Says so if that means to wait for a gateway.
    fn covers(&self, error: &ClientError) -> bool {
        let is_waiting = self.waits_for_start && error.is_unreachable();
        if is_waiting {
            let limit = humanize::duration(self.limit);
            self.announced.call_once(|| output::say(&format!("{error}; retrying for {limit}")));
        }
        is_waiting || error.is_transient()
    }
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let source =
        BodySource::choose(arguments.file, arguments.body).unwrap_or_else(|words| misused(words));
    let envelope = Envelope::new(arguments.envelope).unwrap_or_else(|words| misused(&words));
    let Arguments { queue, id, .. } = arguments;
    if let Some(problem) = id.as_ref().and_then(problem_of_id) {
        misused(problem);
    }
    let patience = Patience::new(arguments.retry_for);
    let sender = Sender { client, queue, id, envelope, patience };
    match (arguments.lines, arguments.json) {
        (true, json) => send_lines::run(&sender, source, json).await,
        (false, json) => one(&sender, &source, json).await,
    }
}

/// Exits with the usage error code.
fn misused(words: &str) -> ! {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{words}\n")).exit()
}

/// Rejects an id that HTTP would change, or that is too long to append a line number.
fn problem_of_id(id: &MessageId) -> Option<&'static str> {
    const LIMIT_BYTES: usize = 255 - "-18446744073709551615".len();
    if id.as_str().trim_ascii() != id.as_str() {
        return Some("--id must not start or end with a space");
    }
    (id.as_str().len() > LIMIT_BYTES).then_some("--id must not be longer than 234 bytes")
}

async fn one(sender: &Sender<'_>, source: &BodySource, json: bool) -> Result<()> {
    let body = source.read()?.into();
    let id = sender.id.clone().unwrap_or_else(new_id);
    let reply = sender.send_with_retries(&id, body).await?;
    let accepted: AcceptedMessage = reply.parse()?;
    if json {
        output::print_json(&reply)?;
    } else {
        output::print(&format!("{}\n", output::printable(&accepted.id)))?;
    }
    output::hint(&match accepted.repeated {
        true => format!("queue {} accepted this message before; nothing was added", sender.queue),
        false => format!("accepted by queue {}", sender.queue),
    });
    Ok(())
}

impl Sender<'_> {
    /// Retries with the same id, so that a message whose response was lost is accepted only once.
    async fn send_with_retries(
        &self,
        id: &MessageId,
        body: Bytes,
    ) -> Result<ApiReply, ClientError> {
        let mut retry = Retry::new(self.patience.limit);
        loop {
            match self.send(id, body.clone()).await {
                Err(error)
                    if self.patience.covers(&error) && retry.wait(error.retry_after()).await => {}
                result => return result,
            }
        }
    }

    async fn send(&self, id: &MessageId, body: Bytes) -> Result<ApiReply, ClientError> {
        let headers = self.envelope.headers(id, &body);
        self.client
            .upload(&path(["v1", "queues", self.queue.as_str(), "messages"]), headers, body)
            .await
    }
}

fn new_id() -> MessageId {
    MessageId::generate(SystemClock.now(), &mut rand::rng())
}

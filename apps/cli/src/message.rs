//! `bezoar message`: where a message is.

use anyhow::Result;
use bezoar::MessageId;
use bezoar_gateway::api_types::{MessagePlaces, MessageQueue, MessageState};

use crate::{
    client::{ApiClient, path},
    humanize::{self, count, plural},
    output,
    table::Table,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The message's own id, as `bezoar send` prints it
    id: MessageId,
    /// Print the gateway's JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments, client: &ApiClient) -> Result<()> {
    let reply = client.get(&path(["v1", "messages", arguments.id.as_str()])).await?;
    if arguments.json {
        return output::print_json(&reply).map(drop);
    }
    let places: MessagePlaces = reply.parse()?;
    output::print(&facts(&places).render())?;
    if let Some(letter) = places.dead_letters.first() {
        output::hint(&format!("show its attempts: bezoar dead show {}", letter.id));
    }
    Ok(())
}

fn facts(places: &MessagePlaces) -> Table {
    let mut facts = Table::of_facts();
    facts.push(["message".into(), places.message_id.as_str().into()]);
    facts.push(["state".into(), state(places.state).into()]);
    for place in &places.queues {
        facts.push(["queue".into(), in_queue(place).into()]);
    }
    for letter in &places.dead_letters {
        let words = format!("{} in {}: {}", letter.id, letter.queue, letter.reason);
        facts.push(["dead letter".into(), words.into()]);
    }
    for rejection in &places.rejections {
        let words = format!("in {}: {}", rejection.queue, rejection.reason);
        facts.push(["rejected".into(), words.into()]);
    }
    facts
}

fn state(state: MessageState) -> String {
    match state {
        MessageState::Dead => "dead-lettered".to_owned(),
        MessageState::DeadOnBroker => "dead-lettered; the dead letter is on its broker".to_owned(),
        MessageState::Waiting => "waiting to be delivered".to_owned(),
        MessageState::Delayed => "waiting for a delay to pass".to_owned(),
        MessageState::Leased => "being delivered".to_owned(),
        MessageState::Blocked => {
            "waiting for an earlier message with the same ordering key".to_owned()
        }
        MessageState::Queued => {
            "in its queue, which is too long to tell whether it is being delivered".to_owned()
        }
        MessageState::Done => {
            "left its queue within the last 24 hours: completed, or its dead letter was removed"
                .to_owned()
        }
        MessageState::NotKnown => {
            "not known here: on a broker, completed earlier, or never sent".to_owned()
        }
        other => other.to_string(),
    }
}

/// `results: delayed until 2026-11-18 08:30:00 UTC, 2 attempts failed`
fn in_queue(place: &MessageQueue) -> String {
    let Some(message) = &place.message else { return format!("{}: {}", place.queue, place.state) };
    let due = humanize::moment(message.due_at);
    let when = match place.state {
        MessageState::Waiting => format!("waiting since {due}"),
        MessageState::Delayed => format!("delayed until {due}"),
        MessageState::Leased => format!("delivery {} until {due}", count(message.deliveries)),
        other => other.to_string(),
    };
    let failed = match message.attempts {
        0 => String::new(),
        attempts => format!(", {} failed", plural(attempts, "attempt")),
    };
    format!("{}: {when}{failed}", place.queue)
}

#[cfg(test)]
mod tests {
    use bezoar_gateway::api_types::QueuedMessage;

    use super::*;

    #[test]
    fn a_place_says_since_when_or_until_when() {
        let message = QueuedMessage { deliveries: 2, attempts: 1, ..QueuedMessage::default() };
        let place =
            |state| MessageQueue { queue: "lab".to_owned(), state, message: Some(message.clone()) };
        let start = "1970-01-01 00:00:00 UTC";
        for (state, expected) in [
            (MessageState::Waiting, format!("lab: waiting since {start}, 1 attempt failed")),
            (MessageState::Delayed, format!("lab: delayed until {start}, 1 attempt failed")),
            (MessageState::Leased, format!("lab: delivery 2 until {start}, 1 attempt failed")),
        ] {
            assert_eq!(in_queue(&place(state)), expected);
        }
        let done = MessageQueue { message: None, ..place(MessageState::Done) };
        assert_eq!(in_queue(&done), "lab: done");
    }
}

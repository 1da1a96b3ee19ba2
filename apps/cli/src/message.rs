//! `bezoar message`: where a message is.

use anyhow::Result;
use bezoar::MessageId;
use bezoar_gateway::api_types::{MessagePlaces, MessageState};

use crate::{
    client::{ApiClient, path},
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
        MessageState::NotDead => {
            "not a dead letter: it waits, is being delivered, was delivered, or never existed"
                .to_owned()
        }
        other => other.to_string(),
    }
}

//! A rule about queues that hold dead letters.

use std::collections::BTreeMap;

use bezoar::QueueName;

use super::{ConfigKey, Contradiction};
use crate::config::{Config, Watch};

/// Poison queues that two would consume: the intake of dead letters, and a route or the intake of another queue.
pub(super) fn shared(config: &Config) -> Vec<Contradiction> {
    let (mut takers, mut found) = (BTreeMap::new(), Vec::new());
    for queue in config.all_queues() {
        let Some(poison) = taken_in(config, &queue) else { continue };
        let route = config.routes.iter().find(|route| route.from.as_str() == poison);
        let problem = match (route, takers.get(&poison)) {
            (Some(route), _) => format!("which route {} consumes", route.name),
            (None, Some(other)) => format!("and so has queue {other}"),
            (None, None) => {
                takers.insert(poison, queue);
                continue;
            }
        };
        let problem = format!("has its dead letters in {poison}, {problem}");
        let remedy = "set watch = \"count\" in its [[queue]], or another dead_letter_queue";
        found.push(Contradiction::error(place_of(config, &queue), problem, remedy));
    }
    found
}

/// The poison queue that dead letters of a queue are taken in from, unless a `[[poison_retry]]` works on either.
fn taken_in(config: &Config, queue: &QueueName) -> Option<String> {
    let is_retried = config.poison_retries.iter().any(|it| it.queue == *queue);
    if is_retried || config.poison_retry_of(queue).is_some() || config.watch(queue) != Watch::Take {
        return None;
    }
    let (transport, there) = config.broker(queue)?;
    let settings = transport.settings.of_kind();
    let poison = settings.dead_letter_queue(&there, config.queue(queue))?;
    Some(format!("{}/{poison}", transport.name))
}

/// The key that names a queue: of its `[[queue]]`, or else of its route.
fn place_of(config: &Config, queue: &QueueName) -> ConfigKey {
    let said = config.queues.iter().position(|said| said.name == *queue);
    let route = config.routes.iter().position(|route| route.from == *queue);
    said.map(|index| ConfigKey::Queue(index, "name"))
        .unwrap_or(ConfigKey::Route(route.unwrap_or(0), "from"))
}

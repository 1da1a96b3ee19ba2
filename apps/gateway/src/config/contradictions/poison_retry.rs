//! Rules about `[[poison_retry]]`.

use super::{
    ConfigKey, Contradiction,
    rules::{is_embedded, twins},
};
use crate::config::Config;

/// Two consumers of one poison queue.
pub(super) fn competing(config: &Config) -> Vec<Contradiction> {
    let remedy = "let only one of them work on it";
    let twice = twins(&config.poison_retries, |it| &it.queue).map(|(earlier, later)| {
        let queue = &config.poison_retries[later].queue;
        let problem = format!("is {queue}, the same as poison_retry[{earlier}].queue");
        Contradiction::error(ConfigKey::PoisonRetry(later, "queue"), problem, remedy)
    });
    let poison = config.poison_retries.iter().enumerate();
    let routed = poison.filter_map(|(index, it)| {
        let route = config.routes.iter().find(|route| route.from == it.queue)?;
        let problem = format!("is {}, which is the queue of route {}", it.queue, route.name);
        Some(Contradiction::error(ConfigKey::PoisonRetry(index, "queue"), problem, remedy))
    });
    twice.chain(routed).collect()
}

/// Queues of which no transport can be worked on.
pub(super) fn impossible(config: &Config) -> Vec<Contradiction> {
    let poison = config.poison_retries.iter().enumerate();
    let impossible = poison.filter(|(_, it)| {
        let broker = config.broker(&it.queue);
        is_embedded(&it.queue)
            || broker.is_some_and(|(it, _)| !it.settings.of_kind().retries_poison())
    });
    let error = |(index, it): (usize, &crate::config::PoisonRetryConfig)| {
        let problem = format!("is {}, which is not on Azure Storage Queue", it.queue);
        let remedy = "use a queue of a transport with url = \"azurequeue:\"; elsewhere dead letters are replayed";
        Contradiction::error(ConfigKey::PoisonRetry(index, "queue"), problem, remedy)
            .moot_with("transports")
    };
    impossible.map(error).collect()
}

/// Dead letters that go to another transport, or back to where they came from.
pub(super) fn dead_letters_elsewhere(config: &Config) -> Vec<Contradiction> {
    let transport =
        |queue: &bezoar::QueueName| queue.as_str().split_once('/').map(|(name, _)| name.to_owned());
    let poison = config.poison_retries.iter().enumerate();
    let wrong = poison.filter(|(_, it)| {
        transport(&it.queue).is_some()
            && (transport(&it.dead_letter) != transport(&it.queue) || it.dead_letter == it.queue)
    });
    let error = |(index, it): (usize, &crate::config::PoisonRetryConfig)| {
        let problem =
            format!("is {}, which is not another queue of the same transport", it.dead_letter);
        let remedy = "name a queue beside the poison queue, or leave it out";
        Contradiction::error(ConfigKey::PoisonRetry(index, "dead_letter"), problem, remedy)
    };
    wrong.map(error).collect()
}

//! `[[poison_retry]]`.

use std::time::Duration;

use bezoar::{QueueName, poison_retry::PoisonRetryOptions};

use super::*;

const LAB: &str =
    "[transports.lab]\nurl = 'azurequeue:'\nconnection_string = 'UseDevelopmentStorage=true'\n";
const RABBIT: &str = "[transports.rabbit]\nurl = 'amqp://localhost'\n";

fn poison_retry(more: &str) -> String {
    let required = "queue = 'lab/results-poison'\nto = 'http://127.0.0.1:3000/'";
    format!("{LAB}[[poison_retry]]\n{required}\n{more}\n")
}

#[track_caller]
fn check(text: &str, part: &str) {
    let found = problems(text);
    assert!(found.iter().any(|it| it.contains(part)), "{part}: {found:#?}");
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

#[test]
fn only_queue_and_endpoint_are_required() {
    let config = loaded(&poison_retry("")).config;
    let it = &config.poison_retries[0];
    assert_eq!(it.options, PoisonRetryOptions::default());
    assert_eq!(it.options.every, Duration::from_secs(300));
    assert_eq!(it.dead_letter, queue("lab/results-poison-dead"), "taken into the catalogue");
    assert_eq!((it.fields.retry_count.as_str(), &it.fields.body), ("RetryCount", &None));
    assert!(config.all_queues().contains(&it.queue));
    assert!(config.queues.is_empty(), "no queue `default` beside it");
}

#[test]
fn all_missing_settings_are_in_one_problem() {
    let text = format!("{LAB}[[poison_retry]]\nevery = '1m'\n");
    assert_eq!(problems(&text).len(), 1);
    check(
        &text,
        "poison_retry[0] is incomplete: missing required configuration settings: queue, to",
    );
    check(
        &format!("{LAB}[[poison_retry]]\nqueue = 'lab/q-poison'\n"),
        "missing required configuration settings: to",
    );
    // What the account lacks is in the same report.
    let text = "[transports.lab]\nurl = 'azurequeue:'\n[[poison_retry]]\nevery = '1m'\n";
    assert_eq!(problems(text).len(), 2, "{:#?}", problems(text));
    check(text, "missing required configuration settings: queue, to");
    check(text, "connection_string");
}

#[test]
fn numbers_are_held_to_their_ranges() {
    for (line, part) in [
        ("batch = 33", "batch is 33; set a whole number from 1 to 32"),
        ("batch = 0", "batch is 0"),
        ("base = 0", "base is 0"),
        ("jitter_most = 1.1", "jitter_most is 1.1"),
        ("invisibility = '500ms'", "invisibility is"),
        ("invisibility = '8d'", "invisibility is"),
        (
            "invisibility = '30s'",
            "timeout is 30 s, it must be above 0 and shorter than invisibility",
        ),
        ("max_attempts = 12", "above 7 days"),
        ("base = 101\nmax_attempts = 1", "above 7 days"),
        ("retry_count_field = 'CorrelationId'", "must have different names"),
    ] {
        check(&poison_retry(line), part);
    }
    for line in ["max_attempts = 0", "max_attempts = 12\njitter = false", "invisibility = '7d'"] {
        assert!(loaded(&poison_retry(line)).config.poison_retries.len() == 1, "{line}");
    }
}

/// Otherwise the dead letters of `lab/results` would be left to a processor that does not run.
#[test]
fn a_poison_queue_that_is_new_in_a_reload_waits_for_a_restart() {
    let queues = "[[queue]]\nname = 'lab/results'\n";
    let (before, new) = (format!("{LAB}{queues}"), format!("{}{queues}", poison_retry("")));
    let (before, new) = (loaded(&before).config, loaded(&new).config);
    let after = before.reloaded(new.clone());
    assert!(new.poison_retry_of(&queue("lab/results")).is_some());
    assert!(after.poison_retry_of(&queue("lab/results")).is_none(), "still taken in");
    assert_eq!(after.all_queues(), before.all_queues());
    assert!(before.differences(&new).restart.contains(&"poison_retry[].queue"));
}

#[test]
fn only_queues_of_azure_are_worked_on_and_each_once() {
    let other = |queue: &str| {
        format!("{LAB}{RABBIT}[[poison_retry]]\nqueue = '{queue}'\nto = 'http://127.0.0.1:3000/'\n")
    };
    check(&other("results"), "is not on Azure Storage Queue");
    check(&other("rabbit/results"), "is not on Azure Storage Queue");
    check(&other("other/results"), "there is no transport other");
    let twice = format!("{}{}", poison_retry(""), poison_retry("").replace(LAB, ""));
    check(&twice, "is lab/results-poison, the same as poison_retry[0].queue");
    let routed = "[[route]]\nname = 'r'\nfrom = 'lab/results-poison'\nto = 'http://127.0.0.1:1/'\n";
    check(&format!("{}{routed}", poison_retry("")), "which is the queue of route r");
}

#[test]
fn dead_letters_go_to_another_queue_of_the_same_account() {
    let config = loaded(&poison_retry("dead_letter = 'lab/given-up'")).config;
    assert_eq!(config.poison_retries[0].dead_letter, queue("lab/given-up"));
    let queues = config.poison_retry_queues(&config.transports[0].name);
    assert_eq!(queues, [(queue("results-poison"), queue("given-up"))].into());
    for wrong in ["lab/results-poison", "embedded"] {
        let text = poison_retry(&format!("dead_letter = '{wrong}'"));
        check(&text, "is not another queue of the same transport");
    }
}

#[test]
fn a_poison_queue_that_is_worked_on_is_not_taken_in() {
    let queues = "[[queue]]\nname = 'lab/results'\n[[queue]]\nname = 'lab/other'\n\
                  [[queue]]\nname = 'lab/renamed'\ndead_letter_queue = 'results-poison'\n";
    let config = loaded(&format!("{}{queues}", poison_retry(""))).config;
    let worked_on = |name| config.poison_retry_of(&queue(name)).is_some();
    assert!(worked_on("lab/results") && worked_on("lab/renamed"));
    assert!(!worked_on("lab/other"));
    assert!(!worked_on("lab/results-poison"), "its own dead letters are taken in");
}

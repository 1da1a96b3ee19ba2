use bezoar_core::QueueName;
use serde_json::json;

use super::*;
use crate::{Options, Topology};

fn wanted(role: QueueRole) -> Queue {
    let queue = QueueName::new("q").unwrap();
    let options = Options::from_url("amqp://localhost").unwrap();
    let topology = Topology::for_queue(&queue, &options).unwrap();
    let name = if role == QueueRole::Work { "q" } else { "q.dead" };
    topology.queues.into_iter().find(|queue| queue.name == name).unwrap()
}

/// A queue that `provision` has created, as the management API describes it.
fn sound(role: QueueRole) -> Value {
    let arguments = wanted(role).arguments;
    let arguments = arguments.into_iter().map(|(name, value)| (name.to_string(), plain(value)));
    json!({
        "name": "q", "type": "quorum", "durable": true, "auto_delete": false, "policy": "p",
        "arguments": Value::Object(arguments.collect()), "effective_policy_definition": {},
    })
}

fn findings(role: QueueRole, change: impl FnOnce(&mut Value)) -> Vec<Finding> {
    let mut seen = sound(role);
    change(&mut seen);
    let queue = DescribedQueue::new("q", role, &seen);
    let options = Options {
        dead_lettering: DeadLettering::Reject,
        handler_timeout: Some(Duration::from_secs(60)),
        ..Options::from_url("amqp://localhost").unwrap()
    };
    queue.findings(&options, ReturnRoute::Direct)
}

/// The one finding that is more than a note.
fn worst(role: QueueRole, change: impl FnOnce(&mut Value)) -> (Severity, String) {
    let findings = findings(role, change);
    let found: Vec<_> = findings.iter().filter(|it| it.severity > Severity::Note).collect();
    assert_eq!(found.len(), 1, "{findings:?}");
    (found[0].severity, found[0].problem.clone())
}

#[test]
fn a_sound_queue_has_no_findings() {
    assert_eq!(findings(QueueRole::Work, |_| ()), []);
    assert_eq!(findings(QueueRole::Dead, |_| ()), []);
}

#[test]
fn each_fault_is_found_and_named() {
    type Change = fn(&mut Value);
    let cases: [(QueueRole, Change, Severity, &str); 9] = [
        (QueueRole::Work, |it| it["durable"] = false.into(), Severity::Error, "not durable"),
        (QueueRole::Dead, |it| it["auto_delete"] = true.into(), Severity::Error, "is deleted when"),
        (
            QueueRole::Work,
            |it| it["arguments"]["x-dead-letter-strategy"] = Value::Null,
            Severity::Warning,
            "no dead-letter-strategy",
        ),
        (
            QueueRole::Work,
            |it| it["arguments"]["x-overflow"] = "drop-head".into(),
            Severity::Warning,
            "silently defeats",
        ),
        (
            QueueRole::Work,
            |it| it["effective_policy_definition"]["delivery-limit"] = 5.into(),
            Severity::Warning,
            "limit of 5 by policy \"p\"",
        ),
        (
            QueueRole::Work,
            |it| it["arguments"]["x-delivery-limit"] = 5.into(),
            Severity::Warning,
            "limit of 5 by argument",
        ),
        (
            QueueRole::Dead,
            |it| it["effective_policy_definition"]["message-ttl"] = 5.into(),
            Severity::Error,
            "loses messages",
        ),
        (
            QueueRole::Work,
            |it| it["effective_policy_definition"]["consumer-timeout"] = 60_000.into(),
            Severity::Warning,
            "consumer timeout is 60s",
        ),
        (
            QueueRole::Work,
            |it| it["effective_policy_definition"]["max-length"] = 5.into(),
            Severity::Error,
            "may be full and has no return queue",
        ),
    ];
    for (role, change, severity, words) in cases {
        let (found, problem) = worst(role, change);
        assert_eq!(found, severity, "{problem}");
        assert!(problem.contains(words), "{problem}");
    }
}

/// A queue as another program has created it, without arguments.
fn plain_queue(policy: Value) -> Vec<(Severity, String)> {
    let seen = json!({
        "name": "q", "type": "classic", "durable": true, "auto_delete": false, "policy": "p",
        "arguments": {}, "effective_policy_definition": policy,
    });
    let queue = DescribedQueue::new("q", QueueRole::Work, &seen);
    let options = Options::from_url("amqp://localhost").unwrap();
    let findings = queue.findings(&options, ReturnRoute::Direct);
    findings.into_iter().map(|it| (it.severity, it.problem)).collect()
}

#[test]
fn a_plain_queue_is_sound_while_dead_letters_are_published() {
    assert_eq!(plain_queue(json!({})), []);
}

#[test]
fn without_a_dead_letter_exchange_limits_lose_messages() {
    for (limits, words) in [
        (json!({ "message-ttl": 5 }), "loses messages that wait too long"),
        (json!({ "max-length": 5 }), "loses its oldest messages"),
    ] {
        let [(Severity::Error, problem)] = &plain_queue(limits)[..] else { panic!("{words}") };
        assert!(problem.contains(words), "{problem}");
    }
    let kept = plain_queue(json!({ "message-ttl": 5, "dead-letter-exchange": "dlx" }));
    assert!(kept.iter().all(|(severity, _)| *severity < Severity::Error), "{kept:?}");
}

#[test]
fn a_queue_that_may_be_full_needs_a_return_queue() {
    let mut seen = sound(QueueRole::Work);
    seen["effective_policy_definition"]["max-length-bytes"] = 5.into();
    let queue = DescribedQueue::new("q", QueueRole::Work, &seen);
    assert!(queue.can_be_full());
    let options = Options::from_url("amqp://localhost").unwrap();
    let found = queue.findings(&options, ReturnRoute::ThroughQueue);
    assert!(found.iter().all(|it| it.severity == Severity::Note), "{found:?}");
    seen["messages_dlx"] = 40.into();
    let waiting = DescribedQueue::new("r", QueueRole::Dead, &seen).waiting_retries("q").unwrap();
    assert!(waiting.problem.starts_with("40 retries of queue \"q\" wait"), "{waiting:?}");
    let sound = sound(QueueRole::Work);
    assert!(!DescribedQueue::new("q", QueueRole::Work, &sound).can_be_full());
}

#[test]
fn only_a_maximum_length_is_remedied_by_a_return_queue() {
    let found = findings(QueueRole::Work, |it| {
        it["effective_policy_definition"] = json!({ "max-length": 5, "expires": 5 });
    });
    let remedies: Vec<_> = found.iter().map(|it| it.remedy.as_str()).collect();
    let provision = "provision the queue, which creates its return queue, or remove max-length";
    assert_eq!(remedies, ["remove expires, or accept it", provision]);
}

#[test]
fn a_queue_that_dead_letters_what_it_refuses_multiplies_its_retries() {
    let found = |overflow: &str| {
        let mut seen = sound(QueueRole::Work);
        seen["arguments"] = json!({ "x-max-length": 5, "x-overflow": overflow });
        let options = Options::from_url("amqp://localhost").unwrap();
        let queue = DescribedQueue::new("q", QueueRole::Work, &seen);
        let findings = queue.findings(&options, ReturnRoute::ThroughQueue);
        findings.iter().any(|it| it.problem.contains("becomes another dead letter"))
    };
    assert!(found("reject-publish-dlx"));
    assert!(!found("reject-publish"));
}

#[test]
fn a_policy_that_an_argument_overrides_changes_nothing() {
    let overridden = findings(QueueRole::Work, |it| {
        it["effective_policy_definition"] = json!({"overflow": "drop-head", "delivery-limit": 2_000_000, "dead-letter-exchange": "x"});
    });
    assert_eq!(overridden, []);
}

#[test]
fn the_brokers_refusal_is_parsed() {
    let text = "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': \
                received none but current is the value '5' of type 'long'";
    let read = read_refusal(text).unwrap();
    let expected = ("x-message-ttl", "the value '5' of type 'long'", "none");
    assert_eq!((read.0.as_str(), read.1.as_str(), read.2.as_str()), expected);
    assert_eq!(read_refusal("something else"), None);
}

#[test]
fn versions_and_nodes_are_judged() {
    for (version, old) in [("3.10.8", true), ("3.12.0", false), ("4.0.5", false), ("?", true)] {
        let found = old_version(&json!({ "rabbitmq_version": version }));
        assert_eq!(found.is_some(), old, "{version}");
    }
    let nodes = json!([
        {"name": "a", "running": true, "mem_alarm": true, "disk_free_alarm": false, "partitions": []},
        {"name": "b", "running": false},
    ]);
    let found = node_findings(&nodes);
    assert!(found[0].problem.contains("memory") && found[0].severity == Severity::Error);
    assert!(found[1].problem.contains("not running") && found.len() == 2, "{found:?}");
}

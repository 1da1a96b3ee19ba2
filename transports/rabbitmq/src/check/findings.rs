//! Findings about a queue as the management API describes it: what is wrong, and the remedy (pure).

use std::time::Duration;

use bezoar_core::{Finding, Severity};
use serde_json::Value;

use crate::{
    DeadLettering, Options, QueueType,
    topology::{Queue, plan::plain, return_route::ReturnRoute},
};

/// The lowest delivery limit without a warning: when a worker dies, the broker counts every prefetched message.
const LEAST_DELIVERIES: i64 = 100;
/// The oldest supported version.
const OLDEST: (u32, u32) = (3, 12);

const DELETE_OR_CONFIGURE: &str = "drain and delete it, then provision the queue";

pub(crate) fn finding(
    severity: Severity,
    problem: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding::new(severity, problem, remedy)
}

const MISSING: &str = "does not exist";

pub(crate) fn missing(what: &str, name: &str) -> Finding {
    let remedy = "provision the queue";
    finding(Severity::Error, format!("{what} {name:?} {MISSING}"), remedy)
}

pub(crate) fn is_missing(finding: &Finding) -> bool {
    finding.problem.ends_with(MISSING)
}

const DIFFERENT: &str = "has a different argument";

pub(crate) fn is_difference(finding: &Finding) -> bool {
    finding.problem.contains(DIFFERENT)
}

pub(crate) fn no_delay_topology() -> Finding {
    let problem =
        "the delay exchanges and queues do not exist: no message can be retried after a delay";
    finding(Severity::Error, problem.to_owned(), "provision the queue")
}

/// The delay exchanges have no alternate exchange, neither by argument nor by policy.
pub(crate) fn no_alternate() -> Finding {
    let problem = "the delay exchanges have no alternate exchange: retries of a deleted queue stay in their delay queue, \
                   and hold up those of other queues";
    finding(Severity::Warning, problem, ALTERNATE_REMEDY)
}

/// The same, if it is not known whether a policy sets one.
pub(crate) fn unknown_alternate() -> Finding {
    let problem = "the delay exchanges have no alternate exchange by argument; whether a policy sets one could not be \
                   checked";
    finding(Severity::Note, problem, format!("set management_url, or {ALTERNATE_REMEDY}"))
}

const ALTERNATE_REMEDY: &str = "set alternate-exchange to bezoar.unroutable, by a policy";

/// What a queue is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRole {
    Work,
    Dead,
}

/// A queue as the management API describes it.
pub(crate) struct DescribedQueue<'a> {
    name: &'a str,
    role: QueueRole,
    seen: &'a Value,
}

impl<'a> DescribedQueue<'a> {
    pub(crate) fn new(name: &'a str, role: QueueRole, seen: &'a Value) -> Self {
        Self { name, role, seen }
    }

    /// Everything that is wrong with the queue; `back` is the route of its retries.
    pub(crate) fn findings(&self, options: &Options, back: ReturnRoute) -> Vec<Finding> {
        let mut findings = self.durability();
        findings.extend(self.delivery_limit());
        findings.extend(self.message_losses(back));
        if self.role == QueueRole::Work {
            findings.extend(self.strategy(options.dead_lettering));
            findings.extend(self.refused_copies());
            findings.extend(self.slow_handler(options));
        }
        findings
    }

    /// The dead-letter exchange and routing key, if there are any.
    pub(crate) fn dead_letter_exchange(&self) -> Option<(String, Option<String>)> {
        let text = |name| self.effective(name).and_then(Value::as_str).map(str::to_owned);
        Some((text("dead-letter-exchange")?, text("dead-letter-routing-key")))
    }

    /// Whether every argument of `wanted` is in effect, by argument or by policy.
    pub(crate) fn has_all_of(&self, wanted: &Queue) -> bool {
        wanted.arguments.inner().iter().all(|(name, value)| {
            let name = name.as_str().trim_start_matches("x-");
            self.effective(name) == Some(&plain(value))
        })
    }

    fn is_quorum(&self) -> bool {
        self.seen["type"] == QueueType::Quorum.as_str()
    }

    fn argument(&self, name: &str) -> Option<&'a Value> {
        self.seen["arguments"].get(name)
    }

    fn policy(&self, name: &str) -> Option<&'a Value> {
        self.seen["effective_policy_definition"].get(name)
    }

    /// An argument overrides a policy; of two numbers the lower one applies.
    pub(super) fn effective(&self, name: &str) -> Option<&'a Value> {
        let (argument, policy) = (self.argument(&format!("x-{name}")), self.policy(name));
        match (argument.and_then(Value::as_i64), policy.and_then(Value::as_i64)) {
            (Some(argument), Some(lower)) if lower < argument => policy,
            _ => argument.or(policy),
        }
    }

    /// Where a setting comes from: the argument or the policy.
    pub(super) fn says(&self, name: &str) -> String {
        match (self.argument(&format!("x-{name}")), self.effective(name)) {
            (argument, effective) if argument == effective => format!("argument x-{name}"),
            _ => format!("policy {} with {name}", shown(self.seen.get("policy"))),
        }
    }

    fn durability(&self) -> Vec<Finding> {
        let name = self.name;
        let mut findings = Vec::new();
        if self.seen["durable"] == false {
            let problem =
                format!("queue {name:?} is not durable: it is lost when the broker restarts");
            findings.push(finding(Severity::Error, problem, DELETE_OR_CONFIGURE));
        }
        if self.seen["auto_delete"] == true {
            let problem = format!("queue {name:?} is deleted when its last consumer leaves");
            findings.push(finding(Severity::Error, problem, DELETE_OR_CONFIGURE));
        }
        findings
    }

    /// A delivery limit within reach. Beyond it the broker drops a message, or dead-letters it by itself.
    fn delivery_limit(&self) -> Option<Finding> {
        if !self.is_quorum() {
            return None;
        }
        let limit = self.effective("delivery-limit").and_then(Value::as_i64);
        let problem = match limit {
            None => "has no delivery limit: RabbitMQ 4.0 and later default to 20".to_owned(),
            Some(limit) if (0..LEAST_DELIVERIES).contains(&limit) => {
                format!("has a delivery limit of {limit} by {}", self.says("delivery-limit"))
            }
            Some(_) => return None,
        };
        let (severity, effect) = match (limit, self.dead_letter_exchange()) {
            (Some(_), None) => (Severity::Error, "drops a message"),
            (_, None) => (Severity::Warning, "drops a message"),
            (_, Some(_)) => (Severity::Warning, "dead-letters a message by itself"),
        };
        let problem = format!(
            "queue {:?} {problem}; beyond it the broker {effect}, and a worker that dies uses up deliveries of every \
             message that it had prefetched",
            self.name
        );
        let remedy = "set delivery-limit to 1000000: Bezoar counts deliveries itself, durably";
        Some(finding(severity, problem, remedy))
    }

    /// Whether rejected messages could be lost on the way to the dead-letter queue.
    fn strategy(&self, dead_lettering: DeadLettering) -> Option<Finding> {
        let name = self.name;
        self.dead_letter_exchange()?;
        let rejects = dead_lettering == DeadLettering::Reject;
        let at_most_once = |why: &str| {
            format!(
                "queue {name:?} {why}: expired or rejected messages may be lost on the way to the dead-letter queue"
            )
        };
        if !self.is_quorum() {
            let (problem, remedy) =
                (at_most_once("is classic"), "use quorum queues, or dead-letter by publish");
            return Some(finding(Severity::Note, problem, remedy));
        }
        let severity = if rejects { Severity::Warning } else { Severity::Note };
        let is = |name, value: &str| self.effective(name).is_some_and(|it| it == value);
        if !is("dead-letter-strategy", "at-least-once") {
            let problem = at_most_once("has no dead-letter-strategy=at-least-once");
            let remedy = "set dead-letter-strategy to at-least-once and overflow to reject-publish, by a policy";
            return Some(finding(severity, problem, remedy));
        }
        if !is("overflow", "reject-publish") {
            let problem = at_most_once(
                "has an overflow other than reject-publish, which silently defeats at-least-once",
            );
            return Some(finding(severity, problem, "set overflow to reject-publish, by a policy"));
        }
        None
    }

    /// Whether the queue has a maximum length beyond which it refuses messages.
    pub(crate) fn can_be_full(&self) -> bool {
        let has = |name| self.effective(name).is_some();
        self.refuses() && (has("max-length") || has("max-length-bytes"))
    }

    fn refuses(&self) -> bool {
        let overflow = self.effective("overflow").and_then(Value::as_str);
        overflow.is_some_and(|it| it.starts_with("reject-publish"))
    }

    /// Whether what the queue refuses becomes a dead letter, too: the broker offers it each retry again and again.
    fn refused_copies(&self) -> Option<Finding> {
        let copies = self.effective("overflow").is_some_and(|it| it == "reject-publish-dlx");
        if !copies || !self.can_be_full() {
            return None;
        }
        let problem = format!(
            "queue {:?} may be full: then every few minutes each of its retries becomes another dead letter, by {}",
            self.name,
            self.says("overflow")
        );
        Some(finding(Severity::Error, problem, "use the overflow reject-publish"))
    }

    /// Whether retries wait in a return queue. A few may be on their way at any moment.
    pub(crate) fn waiting_retries(&self, work: &str) -> Option<Finding> {
        let waiting = self.seen["messages_dlx"].as_u64().filter(|it| *it > 0)?;
        let problem = format!(
            "{waiting} retries of queue {work:?} wait in {:?} until the queue accepts them",
            self.name
        );
        let remedy = "if this persists, the queue is full or has lost its leader: make room in it, or raise its maximum \
                      length";
        Some(finding(Severity::Warning, problem, remedy))
    }

    /// Settings that delete messages, or the queue with them.
    fn message_losses(&self, back: ReturnRoute) -> Vec<Finding> {
        let keeps = self.role != QueueRole::Dead && self.dead_letter_exchange().is_some();
        let time_to_live = match keeps {
            true => (Severity::Warning, "dead-letters messages that wait too long"),
            false => (Severity::Error, "loses messages that wait too long"),
        };
        let length = match (self.refuses(), keeps) {
            (true, _) if self.role == QueueRole::Work => match back {
                ReturnRoute::Direct => (
                    Severity::Error,
                    "may be full and has no return queue: then its retries hold up those of other queues",
                ),
                ReturnRoute::ThroughQueue => {
                    (Severity::Note, "may be full: then its retries wait in its return queue")
                }
            },
            (true, _) => (Severity::Warning, "may be full: then nothing can be dead-lettered"),
            (false, true) => {
                (Severity::Warning, "dead-letters its oldest messages when it is full")
            }
            (false, false) => (Severity::Error, "loses its oldest messages when it is full"),
        };
        let losing = [
            ("expires", (Severity::Error, "is deleted after a time without use")),
            ("message-ttl", time_to_live),
            ("max-length", length),
            ("max-length-bytes", length),
        ];
        let found = losing.into_iter().filter(|(key, ..)| self.effective(key).is_some());
        let describe = |(key, (severity, what)): (&str, (Severity, &str))| {
            let value = shown(self.effective(key));
            let problem = format!("queue {:?} {what}: {} is {value}", self.name, self.says(key));
            let lacks_return_queue = severity == Severity::Error && self.refuses();
            let remedy = match lacks_return_queue && key.starts_with("max-length") {
                true => {
                    format!("provision the queue, which creates its return queue, or remove {key}")
                }
                false => format!("remove {key}, or accept it"),
            };
            finding(severity, problem, remedy)
        };
        found.map(describe).collect()
    }

    /// The consumer timeout of the queue, if it has one of its own.
    pub(crate) fn consumer_timeout(&self) -> Option<Duration> {
        let millis = self.effective("consumer-timeout").and_then(Value::as_u64);
        millis.map(Duration::from_millis)
    }

    /// Handlers that may take longer than three quarters of the consumer timeout. Beyond that, a message may be lost with
    /// a slower one on its channel.
    fn slow_handler(&self, options: &Options) -> Option<Finding> {
        let (own, handler) = (self.consumer_timeout(), options.handler_timeout?);
        let timeout = own.unwrap_or(options.consumer_timeout);
        if handler * 4 < timeout * 3 {
            return None;
        }
        let whose = if own.is_some() { "its" } else { "the broker's" };
        let problem = format!(
            "a handler of queue {:?} may take {handler:?}, and {whose} consumer timeout is {timeout:?}: the broker takes \
             back a message that is not settled in time, and delivers it again",
            self.name
        );
        let remedy = "keep the handler's timeout below three quarters of it, or raise consumer_timeout on the broker and in the \
                      options of the transport";
        Some(finding(Severity::Warning, problem, remedy))
    }
}

/// An argument that differs from the one that `provision` would set. Only a queue or exchange that is not durable loses
/// messages.
pub(crate) fn argument_difference(
    what: &str,
    name: &str,
    (argument, there, wanted): (&str, &str, &str),
) -> Finding {
    let severity = if argument == "durable" { Severity::Error } else { Severity::Note };
    let problem = format!("{what} {name:?} {DIFFERENT}: {argument} is {there}, expected {wanted}");
    finding(severity, problem, DELETE_OR_CONFIGURE)
}

/// The argument that the broker refused: its name, its value on the broker, the expected value.
pub(crate) fn read_refusal(text: &str) -> Option<(String, String, String)> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, rest) = rest.split_once("received ")?;
    let (wanted, there) = rest.split_once(" but current is ")?;
    Some((argument.to_owned(), there.trim_end_matches(['"', ')']).to_owned(), wanted.to_owned()))
}

/// The broker is too old.
pub(crate) fn old_version(overview: &Value) -> Option<Finding> {
    let version = overview["rabbitmq_version"].as_str()?;
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next()?, numbers.next().unwrap_or(0));
    if (major, minor) >= OLDEST {
        return None;
    }
    let problem = format!("RabbitMQ {version} is older than 3.12, the oldest supported version");
    Some(finding(Severity::Note, problem, "upgrade the broker"))
}

/// Nodes with an alarm, in a network partition, or down.
pub(crate) fn node_findings(nodes: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for node in nodes.as_array().into_iter().flatten() {
        let name = shown(node.get("name"));
        for (alarm, what) in [("mem_alarm", "memory"), ("disk_free_alarm", "disk space")] {
            if node[alarm] == true {
                let problem =
                    format!("node {name} is low on {what}: the broker blocks all publishers");
                let remedy = format!("free {what} on the node, or raise its limit");
                findings.push(finding(Severity::Error, problem, remedy));
            }
        }
        if node["running"] == false {
            let problem = format!("node {name} is not running");
            findings.push(finding(Severity::Warning, problem, "start it"));
        }
        if node["partitions"].as_array().is_some_and(|others| !others.is_empty()) {
            let problem = format!("node {name} is partitioned from other nodes of its cluster");
            findings.push(finding(
                Severity::Error,
                problem,
                "restore the network between the nodes",
            ));
        }
    }
    findings
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;

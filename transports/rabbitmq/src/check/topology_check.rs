//! `validate`: compares the broker with the topology that a queue needs.
//!
//! AMQP shows what is missing, and the first argument that differs. The management API shows the rest. Without access
//! to it, a note says what could not be checked.

use std::collections::{BTreeMap, HashSet};

use bezoar_core::{ErrorKind, Finding, QueueName, Severity, TransportError};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};

use crate::{
    DeadLettering, Options, RabbitTransport,
    check::binding_routes::{self, BindingTarget},
    check::findings::{self, DescribedQueue, QueueRole, finding, missing},
    error::{from_lapin, is_not_found},
    management::Management,
    topology::dead_letter_route::DeadLetterRoute,
    topology::preconditions::{publishes_problem, rejects_problem},
    topology::provision::{declare_exchange, declare_queue},
    topology::{Binding, Exchange, Queue, Topology},
};

const VALIDATE: &str = "validate";
/// How many exchanges and queues are followed at most, to find out whether dead letters come back.
const FOLLOW_LIMIT: usize = 100;

impl RabbitTransport {
    /// Everything that is wrong with a queue, its topology and its broker.
    pub(crate) async fn check_topology(
        &self,
        queue: &QueueName,
    ) -> Result<Vec<Finding>, TransportError> {
        let topology = self.topology(queue, VALIDATE)?;
        let delays = Topology::of_delays(&self.inner.options);
        let mut findings = Vec::new();
        for exchange in &topology.exchanges {
            findings.extend(self.check_exchange(exchange).await?);
        }
        findings.extend(self.check_delay_topology(&delays).await?);
        let check = match &self.inner.management {
            Some(management) => TopologyCheck { transport: self, management, queue },
            None => {
                for queue in &topology.queues {
                    findings.extend(self.check_queue(queue).await?);
                }
                findings
                    .push(not_checked("bindings, policies, alarms and the version", NO_ADDRESS));
                return Ok(findings);
            }
        };
        findings.extend(check.topology(&topology).await?);
        findings.extend(check.dead_letter_route().await?);
        if findings.iter().all(|found| found.severity < Severity::Error) {
            // The bindings of a missing queue are missing too, which would be noise.
            findings.extend(check.bindings(&topology, &delays).await?);
        }
        findings.extend(check.dead_letter_cycle().await?);
        findings.extend(check.broker().await?);
        Ok(findings)
    }

    /// A delay topology that was never created is one finding, not one for each of its parts.
    async fn check_delay_topology(
        &self,
        delays: &Topology,
    ) -> Result<Vec<Finding>, TransportError> {
        let mut findings = Vec::new();
        for exchange in &delays.exchanges {
            findings.extend(self.check_exchange(exchange).await?);
        }
        for queue in &delays.queues {
            findings.extend(self.check_queue(queue).await?);
        }
        let parts = delays.exchanges.len() + delays.queues.len();
        let missing = findings.iter().filter(|it| findings::is_missing(it)).count();
        Ok(if missing == parts { vec![findings::no_delay_topology()] } else { findings })
    }

    async fn check_exchange(&self, exchange: &Exchange) -> Result<Option<Finding>, TransportError> {
        let name = exchange.name.as_str();
        let channel = self.inner.requests.request_channel(VALIDATE).await?;
        let checking = async {
            let passive = ExchangeDeclareOptions { passive: true, ..Default::default() };
            let none = FieldTable::default();
            channel.exchange_declare(name.into(), ExchangeKind::Direct, passive, none).await?;
            declare_exchange(&channel, exchange).await
        };
        let found = self.inner.requests.with_timeout(checking, VALIDATE).await?;
        self.inner.requests.reuse(channel);
        finding_from(found, "exchange", name)
    }

    /// Checks that the queue exists, and then declares it again: that changes nothing, and the broker names an argument
    /// that differs.
    pub(crate) async fn check_queue(
        &self,
        queue: &Queue,
    ) -> Result<Option<Finding>, TransportError> {
        let channel = self.inner.requests.request_channel(VALIDATE).await?;
        let checking = async {
            let passive = QueueDeclareOptions { passive: true, ..Default::default() };
            let none = FieldTable::default();
            channel.queue_declare(queue.name.as_str().into(), passive, none).await?;
            declare_queue(&channel, queue).await
        };
        let found = self.inner.requests.with_timeout(checking, VALIDATE).await?;
        self.inner.requests.reuse(channel);
        finding_from(found, "queue", &queue.name)
    }
}

/// The finding, if the broker refused; other problems are errors.
fn finding_from(
    found: lapin::Result<()>,
    what: &'static str,
    name: &str,
) -> Result<Option<Finding>, TransportError> {
    let Err(source) = found else { return Ok(None) };
    if is_not_found(&source) {
        return Ok(Some(missing(what, name)));
    }
    let failed = from_lapin(&source, VALIDATE);
    match failed.kind {
        ErrorKind::Unusable => {
            let text = source.to_string();
            let (argument, there, wanted) = findings::read_refusal(&text)
                .unwrap_or_else(|| ("an argument".to_owned(), text, "another value".to_owned()));
            let difference = (argument.as_str(), there.as_str(), wanted.as_str());
            Ok(Some(findings::argument_difference(what, name, difference)))
        }
        ErrorKind::NotAuthorized => {
            let what = format!("the arguments of {what} {name:?}");
            Ok(Some(not_checked(&what, "give the user the permission to configure it")))
        }
        _ => Err(failed),
    }
}

const NO_ADDRESS: &str = "set management_url";

/// A note about what could not be checked.
fn not_checked(what: &str, remedy: &str) -> Finding {
    finding(Severity::Note, format!("{what} could not be checked"), remedy)
}

/// The part of the check that needs the management API.
struct TopologyCheck<'a> {
    transport: &'a RabbitTransport,
    management: &'a Management,
    queue: &'a QueueName,
}

/// What the management API answered, or a note that the user may not ask.
enum Inspected<T> {
    Seen(T),
    Denied(Finding),
}

/// A missing permission is a note; other problems are errors.
fn inspect<T>(
    answer: Result<T, TransportError>,
    what: &str,
) -> Result<Inspected<T>, TransportError> {
    match answer {
        Ok(seen) => Ok(Inspected::Seen(seen)),
        Err(failed) if failed.kind == ErrorKind::NotAuthorized => {
            let remedy = "give the user of management_url the tag `monitoring`";
            Ok(Inspected::Denied(not_checked(what, remedy)))
        }
        Err(failed) => Err(failed),
    }
}

impl TopologyCheck<'_> {
    /// Findings about the work queue, its dead-letter queue and its quarantine queue.
    async fn topology(&self, topology: &Topology) -> Result<Vec<Finding>, TransportError> {
        let Options { dead_lettering, handler_timeout, .. } = &*self.transport.inner.options;
        let mut findings = Vec::new();
        for wanted in &topology.queues {
            let name = wanted.name.as_str();
            let role = if name == self.queue.as_str() { QueueRole::Work } else { QueueRole::Dead };
            let seen = self.management.queue(name, VALIDATE).await;
            match inspect(seen, &format!("policies of queue {name:?}"))? {
                Inspected::Seen(Some(seen)) => {
                    findings.extend(
                        DescribedQueue::new(name, role, &seen)
                            .findings(*dead_lettering, *handler_timeout),
                    );
                }
                Inspected::Seen(None) => findings.push(missing("queue", name)),
                Inspected::Denied(note) => {
                    findings.extend(self.transport.check_queue(wanted).await?);
                    findings.push(note);
                }
            }
        }
        Ok(findings)
    }

    /// Whether dead letters reach the dead-letter queue. A binding other than the one that `provision` creates may lead
    /// there, too.
    async fn dead_letter_route(&self) -> Result<Option<Finding>, TransportError> {
        let options = &self.transport.inner.options;
        let Ok(route) = DeadLetterRoute::of(self.queue, options) else { return Ok(None) };
        let problem = match options.dead_lettering {
            DeadLettering::Reject => {
                rejects_problem(self.management, self.queue, &route, VALIDATE).await
            }
            DeadLettering::Publish => publishes_problem(self.management, &route, VALIDATE).await,
        };
        match inspect(problem, "where dead letters go")? {
            Inspected::Seen(problem) => Ok(problem.map(|problem| {
                let problem = format!("{problem}: dead letters would be lost");
                finding(Severity::Error, problem, "provision the queue")
            })),
            Inspected::Denied(note) => Ok(Some(note)),
        }
    }

    /// Missing bindings of the delay topology.
    async fn bindings(
        &self,
        topology: &Topology,
        delays: &Topology,
    ) -> Result<Vec<Finding>, TransportError> {
        let mut missing: BTreeMap<&str, Vec<&Binding>> = BTreeMap::new();
        let wanted: Vec<_> = topology.bindings.iter().chain(&delays.bindings).collect();
        for Exchange { name: exchange, .. } in &delays.exchanges {
            let there = self.management.bindings_from(exchange, VALIDATE).await;
            let there = match inspect(there, "bindings")? {
                Inspected::Seen(there) => there,
                Inspected::Denied(note) => return Ok(vec![note]),
            };
            let of_exchange = wanted.iter().filter(|binding| binding.from == *exchange);
            let is_there = |binding: &Binding| there.iter().any(|it| is_same(binding, it));
            for binding in of_exchange.filter(|it| !is_there(it)) {
                missing.entry(&binding.to).or_default().push(binding);
            }
        }
        Ok(missing.iter().map(|(queue, lacking)| missing_bindings(queue, lacking)).collect())
    }

    /// Whether dead letters come back to the queue by themselves.
    async fn dead_letter_cycle(&self) -> Result<Vec<Finding>, TransportError> {
        let mut stops = vec![RouteStop::Queue(self.queue.to_string())];
        let mut been = HashSet::new();
        while let Some(stop) = stops.pop() {
            if !been.insert(stop.clone()) || been.len() > FOLLOW_LIMIT {
                continue;
            }
            let next = match inspect(self.next(&stop).await, "where dead letters go")? {
                Inspected::Seen(next) => next,
                Inspected::Denied(note) => return Ok(vec![note]),
            };
            if next.contains(&RouteStop::Queue(self.queue.to_string())) {
                let problem = format!(
                    "dead letters of queue {:?} come back to it through {stop}: a failing message loops forever",
                    self.queue.as_str()
                );
                let remedy = "remove the binding, or the dead-letter exchange of that queue";
                return Ok(vec![finding(Severity::Error, problem, remedy)]);
            }
            stops.extend(next);
        }
        Ok(Vec::new())
    }

    /// Where the broker sends dead letters from here.
    async fn next(&self, stop: &RouteStop) -> Result<Vec<RouteStop>, TransportError> {
        match stop {
            RouteStop::Queue(name) => {
                let Some(seen) = self.management.queue(name, VALIDATE).await? else {
                    return Ok(Vec::new());
                };
                let dead = DescribedQueue::new(name, QueueRole::Work, &seen).dead_letter_exchange();
                // Without a dead-letter routing key the queue keeps the key of the message, which is unknown here.
                Ok(dead
                    .into_iter()
                    .map(|(exchange, key)| RouteStop::Exchange(exchange, key))
                    .collect())
            }
            RouteStop::Exchange(name, key) if name.is_empty() => {
                Ok(key.clone().map(RouteStop::Queue).into_iter().collect())
            }
            RouteStop::Exchange(name, key) => {
                let Some(exchange) = self.management.exchange(name, VALIDATE).await? else {
                    return Ok(Vec::new());
                };
                let kind = exchange["type"].as_str().unwrap_or_default();
                let bindings = self.management.bindings_from(name, VALIDATE).await?;
                let Some(key) = key else { return Ok(Vec::new()) };
                let onward = |next| match next {
                    BindingTarget::Queue(name) => RouteStop::Queue(name),
                    BindingTarget::Exchange(name) => RouteStop::Exchange(name, Some(key.clone())),
                };
                Ok(binding_routes::targets(kind, &bindings, key).into_iter().map(onward).collect())
            }
        }
    }

    /// Findings about the broker itself.
    async fn broker(&self) -> Result<Vec<Finding>, TransportError> {
        let mut findings = Vec::new();
        match inspect(self.management.overview(VALIDATE).await, "the broker's version")? {
            Inspected::Seen(overview) => findings.extend(findings::old_version(&overview)),
            Inspected::Denied(note) => findings.push(note),
        }
        match inspect(self.management.nodes(VALIDATE).await, "alarms")? {
            Inspected::Seen(nodes) => findings.extend(findings::node_findings(&nodes)),
            Inspected::Denied(note) => findings.push(note),
        }
        Ok(findings)
    }
}

/// A queue or exchange on the route of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RouteStop {
    Queue(String),
    /// With the routing key, if it is known.
    Exchange(String, Option<String>),
}

impl std::fmt::Display for RouteStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name:?}"),
            Self::Exchange(name, _) => write!(f, "exchange {name:?}"),
        }
    }
}

fn is_same(binding: &Binding, there: &serde_json::Value) -> bool {
    there["destination_type"] == "queue"
        && there["destination"] == binding.to.as_str()
        && there["routing_key"] == binding.key.as_str()
}

/// All missing bindings of a queue are one finding.
fn missing_bindings(queue: &str, lacking: &[&Binding]) -> Finding {
    let lack = match lacking {
        [Binding { from, key, .. }] => {
            format!("exchange {from:?} is not bound to queue {queue:?} with routing key {key:?}")
        }
        all => format!("{} exchanges are not bound to queue {queue:?}", all.len()),
    };
    let problem = format!("{lack}: messages get stuck or lost");
    finding(Severity::Error, problem, "provision the queue")
}

//! `validate`: compares the broker with the topology that queues need.
//!
//! AMQP shows what is missing, and the first argument that differs. The management API shows the rest. Without access
//! to it, a note says what could not be checked. What queues share is checked once, and what can be asked for all of them
//! together is asked first: one after the other, a hundred queues would take many seconds on a distant broker.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    slice::from_ref,
};

use bezoar_core::{ErrorKind, Finding, Invalid, QueueName, Severity, TransportError};

use crate::{
    DeadLettering, RabbitTransport, ReturnQueues,
    check::binding_routes::BindingTarget,
    check::findings::{DescribedQueue, QueueRole, finding, missing},
    check::harmful_policies::harmful_policies,
    check::inspection::{Inspected, inspect},
    check::missing_bindings::MissingBindings,
    check::permissions::LackingPermissions,
    check::shared_check::seen_bindings,
    check::{VALIDATE, answers},
    error::error,
    management::{Management, Needed},
    topology::dead_letter_route::DeadLetterRoute,
    topology::preconditions::{publishes_problem, rejects_problem},
    topology::return_route::ReturnRoute,
    topology::{Exchange, Topology},
};

/// How many exchanges and queues are followed at most, to find out whether dead letters come back.
const FOLLOW_LIMIT: usize = 100;

/// What is wrong with a broker and some of its queues.
#[derive(Debug)]
#[non_exhaustive]
pub struct BrokerFindings {
    /// What is wrong with the broker, and with the exchanges and queues that all work queues share.
    pub shared: Vec<Finding>,
    /// What is wrong with each queue, in the order in which they were given.
    pub queues: Vec<Result<Vec<Finding>, TransportError>>,
}

impl RabbitTransport {
    /// Validates several queues. What they share is checked once, which makes it much faster than to validate each of
    /// them.
    ///
    /// # Errors
    ///
    /// If what the queues share could not be checked, for example because the broker is unreachable.
    pub async fn validate_all(
        &self,
        queues: &[QueueName],
    ) -> Result<BrokerFindings, TransportError> {
        let management = self.inner.management.as_ref().map(|it| it.remembering());
        let mut shared = self.check_shared(management.as_ref()).await?;
        let broker = self.ask_for_all(queues, &shared, management).await?;
        let routes = broker.routes.iter().zip(queues);
        let checks = routes.map(|(back, queue)| self.check_topology(queue, *back, &broker));
        let queues = answers(checks.collect()).await;
        let skipped = broker.permissions.skipped();
        shared.extend(skipped);
        Ok(BrokerFindings { shared, queues })
    }

    /// Asks for what can be asked for all queues at once. That is much faster than queue by queue.
    async fn ask_for_all<'a>(
        &self,
        queues: &[QueueName],
        shared: &'a [Finding],
        management: Option<Management>,
    ) -> Result<BrokerCheck<'a>, TransportError> {
        let mut exchanges: BTreeMap<String, Exchange> = BTreeMap::new();
        for queue in queues {
            let of_queue = self.topology(queue, VALIDATE).into_iter().flat_map(|it| it.exchanges);
            exchanges.extend(of_queue.map(|it| (it.name.clone(), it)));
        }
        let needed = Needed { queues: queues.len(), exchanges: exchanges.len() };
        let routes = self.learn_and_route(queues, needed, management.as_ref());
        let (routes, permissions) = self.ask_for_permissions(queues, routes).await?;
        let found = exchanges.values().map(|it| self.check_exchange(it)).collect();
        let found = answers(found).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let exchanges = exchanges.into_keys().zip(found).collect();
        Ok(BrokerCheck { shared, routes, exchanges, permissions, management })
    }

    /// Learns what the management API can tell of all queues, and the route of the retries of each.
    async fn learn_and_route(
        &self,
        queues: &[QueueName],
        needed: Needed,
        management: Option<&Management>,
    ) -> Result<Vec<ReturnRoute>, TransportError> {
        if let Some(management) = management {
            management.learn_many(needed, VALIDATE).await;
        }
        let route = |queue| self.inner.existing_route_by(management, queue, VALIDATE);
        answers(queues.iter().map(route).collect()).await.into_iter().collect()
    }

    /// Everything that is wrong with a queue, except for what all queues share.
    async fn check_topology(
        &self,
        queue: &QueueName,
        back: ReturnRoute,
        broker: &BrokerCheck<'_>,
    ) -> Result<Vec<Finding>, TransportError> {
        let topology = self.topology(queue, VALIDATE)?;
        let exchanges = topology.exchanges.iter();
        let found = exchanges.filter_map(|it| broker.exchanges.get(&it.name)?.clone());
        let mut findings: Vec<_> = found.collect();
        findings.extend(self.lacking_permissions(queue, back, &broker.permissions));
        let Some(management) = &broker.management else {
            for queue in &topology.queues {
                findings.extend(self.check_queue(queue).await?);
            }
            return Ok(findings);
        };
        let check = TopologyCheck { transport: self, management, queue, back };
        findings.extend(check.topology().await?);
        findings.extend(check.return_queue().await?);
        findings.extend(check.dead_letter_route().await?);
        if findings.iter().chain(broker.shared).all(|found| found.severity < Severity::Error) {
            // The bindings of a missing queue are missing too, which would be noise.
            findings.extend(check.bindings().await?);
        }
        findings.extend(check.dead_letter_cycle().await?);
        Ok(findings)
    }
}

/// What is known of the broker when its queues are checked.
struct BrokerCheck<'a> {
    /// What is wrong with what they share.
    shared: &'a [Finding],
    /// The route of the retries of each queue.
    routes: Vec<ReturnRoute>,
    /// What is wrong with the exchanges that they need, by name.
    exchanges: HashMap<String, Option<Finding>>,
    permissions: LackingPermissions,
    management: Option<Management>,
}

/// The part of the check that needs the management API.
struct TopologyCheck<'a> {
    transport: &'a RabbitTransport,
    management: &'a Management,
    queue: &'a QueueName,
    /// The route of its retries.
    back: ReturnRoute,
}

impl TopologyCheck<'_> {
    /// Findings about the work queue, its dead-letter queue and its quarantine queue.
    async fn topology(&self) -> Result<Vec<Finding>, TransportError> {
        let topology = Topology::without_delays(self.queue, &self.transport.inner.options);
        let mut findings = Vec::new();
        for wanted in &topology.map_err(invalid)?.queues {
            let name = wanted.name.as_str();
            let role = if name == self.queue.as_str() { QueueRole::Work } else { QueueRole::Dead };
            let seen = self.management.queue(name, VALIDATE).await;
            match inspect(seen, &format!("policies of queue {name:?}"))? {
                Inspected::Seen(Some(seen)) => {
                    let described = DescribedQueue::new(name, role, &seen);
                    let options = &self.transport.inner.options;
                    findings.extend(described.findings(options, self.back));
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

    /// Findings about the return queue, if there is one or should be.
    async fn return_queue(&self) -> Result<Vec<Finding>, TransportError> {
        let always = self.transport.inner.options.return_queues == ReturnQueues::Always;
        if self.back == ReturnRoute::Direct && !always {
            return Ok(Vec::new());
        }
        let mut findings = Vec::new();
        for wanted in &self.route(ReturnRoute::ThroughQueue)?.queues {
            findings.extend(self.transport.check_delay_queue(wanted).await?);
            let seen = self.management.queue(&wanted.name, VALIDATE).await;
            match inspect(seen, &format!("policies of queue {:?}", wanted.name))? {
                Inspected::Seen(Some(seen)) => {
                    let described = DescribedQueue::new(&wanted.name, QueueRole::Dead, &seen);
                    findings.extend(described.waiting_retries(self.queue.as_str()));
                    findings.extend(harmful_policies(from_ref(wanted), from_ref(&seen)));
                }
                Inspected::Seen(None) => (), // found above
                Inspected::Denied(note) => findings.push(note),
            }
        }
        Ok(findings)
    }

    /// Missing bindings from the delay queues. The direct ones are needed also beside a return queue: messages may be on
    /// their way that were delayed before it existed.
    async fn bindings(&self) -> Result<Vec<Finding>, TransportError> {
        let mut wanted = self.route(ReturnRoute::Direct)?.bindings;
        if self.back == ReturnRoute::ThroughQueue {
            wanted.extend(self.route(ReturnRoute::ThroughQueue)?.bindings);
        }
        let exchanges = wanted.iter().map(|it| it.from.as_str()).collect::<BTreeSet<_>>();
        match inspect(seen_bindings(self.management, exchanges.into_iter()).await, "bindings")? {
            Inspected::Seen(there) => Ok(MissingBindings::of(&wanted, &there).findings()),
            Inspected::Denied(note) => Ok(vec![note]),
        }
    }

    fn route(&self, route: ReturnRoute) -> Result<Topology, TransportError> {
        route.topology(self.queue, &self.transport.inner.options).map_err(invalid)
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
                Ok(bindings.targets(kind, key).into_iter().map(onward).collect())
            }
        }
    }
}

fn invalid(invalid: Invalid) -> TransportError {
    error(ErrorKind::Invalid(invalid), VALIDATE)
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

//! What all queues of a broker share: the delay topology, the version, the nodes. Checked once for all queues.

use bezoar_core::{Finding, Severity, TransportError};
use serde_json::Value;

use crate::{
    RabbitTransport,
    check::findings::{self, DescribedQueue, QueueRole},
    check::harmful_policies::harmful_policies,
    check::inspection::{Inspected, inspect, not_checked},
    check::leaders,
    check::missing_bindings::{MissingBindings, SeenBindings},
    check::overdue::overdue,
    check::{VALIDATE, answers},
    management::Management,
    topology::{ALTERNATE, Exchange, Queue, Topology, UNROUTABLE, is_delay_queue},
};

impl RabbitTransport {
    /// Everything that is wrong with the broker and with what all its queues share.
    pub(crate) async fn check_shared(
        &self,
        management: Option<&Management>,
    ) -> Result<Vec<Finding>, TransportError> {
        let delays = Topology::of_delays(&self.inner.options);
        let mut findings = self.check_delay_topology(&delays).await?;
        let Some(management) = management else {
            let unknown = "bindings, policies, alarms and the version";
            findings.push(not_checked(unknown, "set management_url"));
            return Ok(findings);
        };
        if findings.iter().all(|found| found.severity < Severity::Error) {
            // The bindings of a missing queue are missing too, which would be noise.
            findings.extend(check_delay_bindings(management, &delays).await?);
        }
        findings.extend(check_broker(management, &delays.queues).await?);
        Ok(findings)
    }

    /// A delay queue with other arguments does not delay, unless a policy makes up for them.
    pub(super) async fn check_delay_queue(
        &self,
        queue: &Queue,
    ) -> Result<Option<Finding>, TransportError> {
        let found = self.check_queue(queue).await?;
        let Some(found) = found else { return Ok(None) };
        if !findings::is_difference(&found) {
            return Ok(Some(found));
        }
        if let Some(management) = &self.inner.management
            && let Ok(Some(seen)) = management.queue(&queue.name, VALIDATE).await
            && DescribedQueue::new(&queue.name, QueueRole::Dead, &seen).has_all_of(queue)
        {
            return Ok(None);
        }
        Ok(Some(Finding::new(Severity::Error, found.problem, found.remedy)))
    }

    /// A delay exchange without its argument: a policy may make up for it.
    async fn check_delay_exchange(
        &self,
        exchange: &Exchange,
    ) -> Result<Option<Finding>, TransportError> {
        let found = self.check_exchange(exchange).await?;
        if !found.as_ref().is_some_and(|it| it.problem.contains(ALTERNATE)) {
            return Ok(found);
        }
        let Some(management) = &self.inner.management else {
            return Ok(Some(findings::unknown_alternate()));
        };
        let alternate = management.policy_of_exchange(&exchange.name, VALIDATE).await;
        match inspect(alternate, "policies of the delay exchanges")? {
            Inspected::Seen(policy) if policy[ALTERNATE] == UNROUTABLE => Ok(None),
            Inspected::Seen(_) => Ok(Some(findings::no_alternate())),
            Inspected::Denied(note) => Ok(Some(note)),
        }
    }

    /// A delay topology that was never created is one finding, not one for each of its parts.
    async fn check_delay_topology(
        &self,
        delays: &Topology,
    ) -> Result<Vec<Finding>, TransportError> {
        let exchanges = delays.exchanges.iter().map(|exchange| self.check_delay_exchange(exchange));
        let queues = delays.queues.iter().map(|queue| self.check_delay_queue(queue));
        let exchanges = answers(exchanges.collect()).await.into_iter();
        let found: Vec<Option<Finding>> = exchanges
            .chain(answers(queues.collect()).await)
            .collect::<Result<_, TransportError>>()?;
        let mut findings: Vec<Finding> = found.into_iter().flatten().collect();
        // What is wrong with one delay exchange is wrong with all of them.
        findings.dedup();
        let parts = delays.exchanges.len() + delays.queues.len();
        let missing = findings.iter().filter(|it| findings::is_missing(it)).count();
        Ok(if missing == parts { vec![findings::no_delay_topology()] } else { findings })
    }
}

/// Missing bindings between delay queues.
async fn check_delay_bindings(
    management: &Management,
    delays: &Topology,
) -> Result<Vec<Finding>, TransportError> {
    let exchanges = delays.exchanges.iter().map(|it| it.name.as_str());
    match inspect(seen_bindings(management, exchanges).await, "bindings")? {
        Inspected::Seen(there) => Ok(MissingBindings::of(&delays.bindings, &there).findings()),
        Inspected::Denied(note) => Ok(vec![note]),
    }
}

/// The bindings from exchanges.
pub(super) async fn seen_bindings(
    management: &Management,
    exchanges: impl Iterator<Item = &str>,
) -> Result<SeenBindings, TransportError> {
    let asked = exchanges.map(|name| async move {
        let from = management.bindings_from(name, VALIDATE).await?;
        Ok((name.to_owned(), from))
    });
    answers(asked.collect()).await.into_iter().collect()
}

/// Findings about the broker itself, and what the management API shows of the queues for delayed messages.
async fn check_broker(
    management: &Management,
    wanted: &[Queue],
) -> Result<Vec<Finding>, TransportError> {
    let mut findings = Vec::new();
    match inspect(management.overview(VALIDATE).await, "the broker's version")? {
        Inspected::Seen(overview) => findings.extend(findings::old_version(&overview)),
        Inspected::Denied(note) => findings.push(note),
    }
    match inspect(management.nodes(VALIDATE).await, "alarms")? {
        Inspected::Seen(nodes) => {
            findings.extend(findings::node_findings(&nodes));
            match inspect(management.delay_queues(VALIDATE).await, "delay queues")? {
                Inspected::Seen(queues) => {
                    findings.extend(harmful_policies(wanted, &queues));
                    let is_delay = |it: &Value| it["name"].as_str().is_some_and(is_delay_queue);
                    let delays: Vec<_> = queues.into_iter().filter(is_delay).collect();
                    findings.extend(leaders::imbalance(&nodes, &delays));
                    findings.extend(overdue(&delays));
                }
                Inspected::Denied(note) => findings.push(note),
            }
        }
        Inspected::Denied(note) => findings.push(note),
    }
    Ok(findings)
}

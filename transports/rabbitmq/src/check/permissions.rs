//! Which permissions our user lacks.
//!
//! AMQP has no request that shows permissions, and the management API shows them only to administrators. So we ask for something that
//! the broker refuses for another reason if the permission is there: it checks permissions first. Nothing is consumed or
//! published. The broker logs each refusal.

use std::collections::BTreeSet;

use bezoar_core::{Finding, QueueName, Severity, TransportError};

use crate::{
    DeadLettering, RabbitTransport,
    check::findings::finding,
    topology::{
        self,
        dead_letter_route::DeadLetterRoute,
        return_route::{ReturnRoute, return_queue_name},
    },
};

/// What our user may not do, of what consuming from some queues and settling their messages needs.
#[derive(Debug, Default)]
pub(crate) struct LackingPermissions {
    /// Queues that it may not read.
    pub(super) read_queues: BTreeSet<String>,
    /// Queues that it may not write, which binding them needs.
    pub(super) write_queues: BTreeSet<String>,
    /// The first delay exchange that it may not read, which binding to it needs.
    pub(super) read_exchange: Option<String>,
    /// Exchanges that it may not publish to. The default exchange is the empty string.
    pub(super) write_exchanges: BTreeSet<String>,
    /// How many queues and exchanges were not asked for, because a sample of them lacked nothing.
    pub(super) skipped: usize,
}

impl LackingPermissions {
    /// A note if not everything was asked for.
    pub(crate) fn skipped(&self) -> Option<Finding> {
        (self.skipped > 0).then(|| {
            let problem = format!(
                "permissions were checked for a sample: the user has all of them there, and {} queues and dead-letter \
                 exchanges were not asked for",
                self.skipped
            );
            let remedy = "nothing to do; a route that lacks a permission pauses and says which";
            finding(Severity::Note, problem, remedy)
        })
    }
}

impl RabbitTransport {
    /// Asks for the permissions that all these queues need. Meanwhile finds out the routes of their retries, on which some
    /// of these permissions depend.
    pub(crate) async fn ask_for_permissions(
        &self,
        queues: &[QueueName],
        routes: impl Future<Output = Result<Vec<ReturnRoute>, TransportError>>,
    ) -> Result<(Vec<ReturnRoute>, LackingPermissions), TransportError> {
        let read = queues.iter().flat_map(|queue| self.read_by_consumers(queue)).collect();
        let written = queues.iter().filter_map(|queue| self.published_to(queue));
        let written = written.chain([String::new()]).collect();
        let binding = async {
            let routes = routes.await?;
            let bound = queues.iter().zip(&routes).flat_map(|(queue, back)| bound(queue, *back));
            let lacking = self.unbindable(&bound.collect::<Vec<_>>()).await?;
            Ok((routes, lacking))
        };
        let (read, (routes, (write_queues, read_exchange)), written) = tokio::try_join!(
            self.unreadable_queues(read),
            binding,
            self.unwritable_exchanges(written),
        )?;
        let lacking = LackingPermissions {
            skipped: read.skipped + written.skipped,
            read_queues: read.lacking,
            write_exchanges: written.lacking,
            write_queues,
            read_exchange,
        };
        Ok((routes, lacking))
    }

    /// The permissions that consuming from `queue` and settling its messages need, and that are missing.
    pub(crate) fn lacking_permissions(
        &self,
        queue: &QueueName,
        back: ReturnRoute,
        lacking: &LackingPermissions,
    ) -> Vec<Finding> {
        let unread = self.read_by_consumers(queue).filter(|it| lacking.read_queues.contains(it));
        let (by_choice, needed): (Vec<_>, Vec<_>) =
            unread.partition(|name| self.is_read_by_choice(queue, name));
        let lacks_read = |name: &String| self.lacks("read", &format!("queue {name:?}"), name);
        let mut findings: Vec<_> = needed.iter().map(lacks_read).collect();
        findings.extend(bound(queue, back).filter_map(|it| self.lacks_binding(&it, lacking)));
        findings.extend(by_choice.iter().map(lacks_read).map(only_counted));
        if lacking.write_exchanges.contains("") {
            findings.push(self.lacks("write", "the default exchange", "amq.default"));
        }
        if let Some(exchange) = self.published_to(queue).filter(|it| !it.is_empty())
            && lacking.write_exchanges.contains(&exchange)
        {
            findings.push(self.lacks("write", &format!("exchange {exchange:?}"), &exchange));
        }
        findings
    }

    /// The queues that are read: the work queue, its quarantine queue, and its dead-letter queue.
    fn read_by_consumers(&self, queue: &QueueName) -> impl Iterator<Item = String> + use<> {
        let dead = DeadLetterRoute::of(queue, &self.inner.options).map(|route| route.queue);
        let others = topology::quarantine_queue(queue).into_iter().chain(dead);
        std::iter::once(queue.as_str().to_owned()).chain(others)
    }

    /// Whether it is a dead-letter queue: reading takes in dead letters, or replays or discards them on the broker. Not
    /// everybody needs that.
    fn is_read_by_choice(&self, queue: &QueueName, name: &str) -> bool {
        DeadLetterRoute::of(queue, &self.inner.options).is_ok_and(|route| route.queue == name)
    }

    /// The exchange that consumers of `queue` publish dead letters to, if they do.
    fn published_to(&self, queue: &QueueName) -> Option<String> {
        let options = &self.inner.options;
        let route = DeadLetterRoute::of(queue, options).ok()?;
        (options.dead_lettering == DeadLettering::Publish).then_some(route.exchange)
    }

    /// The permission that is missing to bind a queue to the delay exchanges.
    fn lacks_binding(&self, queue: &str, lacking: &LackingPermissions) -> Option<Finding> {
        if lacking.write_queues.contains(queue) {
            return Some(self.lacks("write", &format!("queue {queue:?}"), queue));
        }
        let exchange = lacking.read_exchange.as_ref()?;
        Some(self.lacks("read", &format!("exchange {exchange:?}"), exchange))
    }

    fn lacks(&self, permission: &str, what: &str, name: &str) -> Finding {
        let (user, vhost) = (&self.inner.user, &self.inner.vhost);
        let problem = format!("user {user:?} lacks the permission to {permission} {what}");
        let remedy = format!(
            "ask the administrator to add {name:?} to the {permission} permission of user {user:?} in virtual host {vhost:?}"
        );
        finding(Severity::Error, problem, remedy)
    }
}

fn only_counted(Finding { problem, remedy, .. }: Finding) -> Finding {
    let problem = format!("{problem}: its dead letters can only be counted");
    finding(Severity::Warning, problem, remedy)
}

/// The queues that are bound to the delay exchanges: retries do, to make sure that they come back.
fn bound(queue: &QueueName, back: ReturnRoute) -> impl Iterator<Item = String> + use<> {
    let through = (back == ReturnRoute::ThroughQueue).then(|| return_queue_name(queue));
    std::iter::once(queue.as_str().to_owned()).chain(through.into_iter().flatten())
}

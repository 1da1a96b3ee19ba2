//! What a reload changes, and what it leaves alone until the next restart.
//!
//! `differences` compares two configurations, with routes matched by name; `reloaded` is what a running gateway has in
//! effect afterwards. Keys marked [`Applies::Restart`](super::Applies::Restart) keep their old value in `reloaded` and
//! are listed in `restart`, so that the operator learns which changes still wait. A test compares both with the table
//! of keys.

use std::collections::BTreeMap;

use bezoar::QueueName;

use super::{BrokerName, Config, Name, PoisonRetryConfig, QueueConfig, RouteConfig};

/// The differences between two configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reload {
    /// Routes that are new.
    pub routes_added: Vec<Name>,
    /// Routes that were removed: they finish their messages in flight, then stop.
    pub routes_removed: Vec<Name>,
    /// Routes with changed settings: the old ones finish their messages in flight beside the new ones.
    pub routes_changed: Vec<Name>,
    /// Routes that keep running undisturbed.
    pub routes_unchanged: Vec<Name>,
    /// Queues that are new. Removed queues keep their messages.
    pub queues_added: Vec<QueueName>,
    /// Poison queues whose `[[poison_retry]]` has changed settings: the old one finishes its run.
    pub poison_retries_changed: Vec<QueueName>,
    /// Whether tokens differ.
    pub tokens_changed: bool,
    /// Whether the allowed addresses differ.
    pub network_changed: bool,
    /// Whether the level or filter of the log differs.
    pub log_changed: bool,
    /// Changed keys that take effect only after a restart.
    pub restart: Vec<&'static str>,
}

impl Reload {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        let unchanged = Self { routes_unchanged: self.routes_unchanged.clone(), ..Self::default() };
        *self == unchanged
    }
}

impl Config {
    /// The differences from this configuration to `new`. Routes are matched by name.
    pub fn differences(&self, new: &Self) -> Reload {
        let before = |route: &&RouteConfig| self.route(&route.name);
        let (kept, added): (Vec<_>, Vec<_>) =
            new.routes.iter().partition(|route| before(route).is_some());
        // A route depends on who works on the dead letters of its queue.
        let (unchanged, changed): (Vec<_>, Vec<_>) = kept.into_iter().partition(|route| {
            before(route) == Some(route) && self.watch(&route.from) == new.watch(&route.from)
        });
        let removed = self.routes.iter().filter(|route| new.route(&route.name).is_none());
        // A new poison queue is worked on after a restart.
        let (queues, after) = (self.all_queues(), self.reloaded(new.clone()));
        Reload {
            routes_added: names(added),
            routes_removed: names(removed),
            routes_changed: names(changed),
            routes_unchanged: names(unchanged),
            queues_added: after.all_queues().difference(&queues).cloned().collect(),
            poison_retries_changed: self.changed_poison_retries(&after),
            tokens_changed: self.tokens != new.tokens,
            network_changed: self.network != new.network,
            log_changed: self.log.directives() != new.log.directives(),
            restart: self.restart(new),
        }
    }

    /// The configuration in effect after a running gateway with this one has loaded `new`: the new one, except for keys
    /// that require a restart.
    pub fn reloaded(&self, new: Self) -> Self {
        let mut after = new;
        after.server = self.server.clone();
        after.store = self.store.clone();
        after.transports = self.transports.clone();
        after.poison_retries =
            self.poison_retries.iter().map(|old| reloaded_poison_retry(old, &after)).collect();
        after.telemetry = self.telemetry.clone();
        after.dead_letters.keep = self.dead_letters.keep;
        after.dead_letters.warn = self.dead_letters.warn;
        after.log.format = self.log.format;
        for queue in &mut after.queues {
            let old = self.queues.iter().find(|old| old.name == queue.name);
            queue.dead_letter_exchange = old.and_then(|old| old.dead_letter_exchange.clone());
            queue.dead_letter_key = old.and_then(|old| old.dead_letter_key.clone());
            queue.dead_letter_queue = old.and_then(|old| old.dead_letter_queue.clone());
        }
        after
    }

    /// The route of this name.
    pub fn route(&self, name: &Name) -> Option<&RouteConfig> {
        self.routes.iter().find(|route| route.name == *name)
    }

    fn changed_poison_retries(&self, after: &Self) -> Vec<QueueName> {
        let changed = after.poison_retries.iter().filter(|it| !self.poison_retries.contains(it));
        changed.map(|it| it.queue.clone()).collect()
    }

    /// The poison queues that are worked on, with their queues for dead letters. Transports are opened with both.
    fn poison_queues(&self) -> BTreeMap<&QueueName, &QueueName> {
        self.poison_retries.iter().map(|it| (&it.queue, &it.dead_letter)).collect()
    }

    /// The names on brokers that queues have, of one kind.
    fn names(
        &self,
        name: fn(&QueueConfig) -> &Option<BrokerName>,
    ) -> BTreeMap<&QueueName, &BrokerName> {
        let named = self.queues.iter().filter_map(|it| Some((&it.name, name(it).as_ref()?)));
        named.collect()
    }

    fn restart(&self, new: &Self) -> Vec<&'static str> {
        let ((a, b), (c, d)) = ((&self.server, &new.server), (&self.store, &new.store));
        let (e, f) = (&self.telemetry, &new.telemetry);
        let renamed =
            |name: fn(&QueueConfig) -> &Option<BrokerName>| self.names(name) != new.names(name);
        let (old_poison, new_poison) = (self.poison_queues(), new.poison_queues());
        let keys = [
            ("server.listen", a.listen != b.listen),
            ("server.max_body", a.max_body_bytes != b.max_body_bytes),
            ("server.body_memory", a.body_memory_bytes != b.body_memory_bytes),
            ("server.max_in_flight", a.max_in_flight != b.max_in_flight),
            ("server.drain", a.drain != b.drain),
            ("store", c != d),
            ("transports", self.transports != new.transports),
            ("poison_retry[].queue", !old_poison.keys().eq(new_poison.keys())),
            ("poison_retry[].dead_letter", old_poison != new_poison),
            ("queue[].dead_letter_exchange", renamed(|it| &it.dead_letter_exchange)),
            ("queue[].dead_letter_key", renamed(|it| &it.dead_letter_key)),
            ("queue[].dead_letter_queue", renamed(|it| &it.dead_letter_queue)),
            ("dead_letters.keep", self.dead_letters.keep != new.dead_letters.keep),
            ("dead_letters.warn", self.dead_letters.warn != new.dead_letters.warn),
            ("log.format", self.log.format != new.log.format),
            ("telemetry.otlp_endpoint", e.otlp_endpoint != f.otlp_endpoint),
            ("telemetry.service_name", e.service_name != f.service_name),
            ("telemetry.traces", e.traces != f.traces),
            ("telemetry.metrics", e.metrics != f.metrics),
            ("telemetry.metrics_access", e.metrics_access != f.metrics_access),
            ("telemetry.correlation", e.correlation != f.correlation),
        ];
        keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
    }
}

/// The `[[poison_retry]]` in effect after a reload: the new one of the same queue, with the old queue for dead letters.
fn reloaded_poison_retry(old: &PoisonRetryConfig, new: &Config) -> PoisonRetryConfig {
    let new = new.poison_retries.iter().find(|it| it.queue == old.queue).unwrap_or(old);
    let mut after = new.clone();
    after.dead_letter = old.dead_letter.clone();
    after
}

fn names<'r>(routes: impl IntoIterator<Item = &'r RouteConfig>) -> Vec<Name> {
    routes.into_iter().map(|route| route.name.clone()).collect()
}

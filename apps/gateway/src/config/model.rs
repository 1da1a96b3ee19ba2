//! The whole configuration.

use std::collections::{BTreeMap, BTreeSet};

use bezoar::QueueName;

use super::{
    DeadLettersConfig, LogConfig, Name, NetworkConfig, Origin, PoisonRetryConfig, QueueConfig,
    RouteConfig, ServerConfig, StoreConfig, TelemetryConfig, TokenConfig, TransportConfig, Watch,
    path::Path,
    reader::{Section, SectionReader},
};

/// The whole configuration: every value is valid by itself. See
/// [`contradictions`](super::contradictions) for values that contradict each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How the gateway listens.
    pub server: ServerConfig,
    /// Where messages are stored.
    pub store: StoreConfig,
    /// Brokers.
    pub transports: Vec<TransportConfig>,
    /// Queues without a route, or with settings of their own; `default` if there is no other queue.
    pub queues: Vec<QueueConfig>,
    /// Routes from queues to endpoints.
    pub routes: Vec<RouteConfig>,
    /// Poison queues whose messages are delivered again.
    pub poison_retries: Vec<PoisonRetryConfig>,
    /// Which addresses endpoints may have.
    pub network: NetworkConfig,
    /// The API tokens.
    pub tokens: Vec<TokenConfig>,
    /// What may be done with dead letters, and how long they are kept.
    pub dead_letters: DeadLettersConfig,
    /// What is logged, and in which format.
    pub log: LogConfig,
    /// What is measured, and where it is sent.
    pub telemetry: TelemetryConfig,
}

impl Default for Config {
    /// Loopback, an embedded store, the queue `default`, no routes.
    fn default() -> Self {
        let loaded = super::load(&super::Sources::default(), &|_| Err("is not needed".to_owned()));
        loaded.expect("a test loads the defaults").config
    }
}

impl Config {
    /// All queues: with and without a route, and poison queues that are worked on.
    pub fn all_queues(&self) -> BTreeSet<QueueName> {
        let routed = self.routes.iter().map(|route| &route.from);
        let retried = self.poison_retries.iter().map(|it| &it.queue);
        let named = self.queues.iter().map(|queue| &queue.name);
        routed.chain(retried).chain(named).cloned().collect()
    }

    /// The broker of a queue, and its name there; `None` for a queue of the embedded store.
    pub fn broker(&self, queue: &QueueName) -> Option<(&TransportConfig, QueueName)> {
        broker_of(&self.transports, queue)
    }

    /// What a `[[queue]]` says about a queue, if there is one.
    pub fn queue(&self, queue: &QueueName) -> Option<&QueueConfig> {
        self.queues.iter().find(|said| said.name == *queue)
    }

    /// What happens to a queue's dead letters on its broker.
    pub fn watch(&self, queue: &QueueName) -> Watch {
        self.queue(queue).map_or(Watch::Take, |said| said.watch)
    }

    /// Whether the dead-letter queue of a broker's queue is configured by name.
    pub fn has_own_dead_letter_queue(&self, queue: &QueueName) -> bool {
        self.queue(queue).is_some_and(|said| said.dead_letter_queue.is_some())
    }

    /// The `[[poison_retry]]` that works on the dead letters of a broker's queue, if there is one. They are then not
    /// taken into the catalogue: what it gives up is.
    pub fn poison_retry_of(&self, queue: &QueueName) -> Option<&PoisonRetryConfig> {
        let (transport, there) = self.broker(queue)?;
        let said = self.queue(queue);
        let dead = transport.settings.of_kind().dead_letter_queue(&there, said)?;
        let dead = QueueName::new(format!("{}/{dead}", transport.name)).ok()?;
        self.poison_retries.iter().find(|it| it.queue == dead)
    }

    /// The names on a broker of the poison queues that are worked on, and of the queues for what is given up there.
    pub fn poison_retry_queues(&self, transport: &Name) -> BTreeMap<QueueName, QueueName> {
        let there = |queue| self.broker(queue).filter(|(it, _)| it.name == *transport);
        let queues = self
            .poison_retries
            .iter()
            .filter_map(|it| Some((there(&it.queue)?.1, there(&it.dead_letter)?.1)));
        queues.collect()
    }

    pub(super) fn read(
        reader: &mut SectionReader<'_>,
        root: &Section<'_>,
    ) -> (Self, ListPositions) {
        let server = ServerConfig::read(reader, &root.table("server"));
        let store = StoreConfig::read(reader, &root.table("store"));
        let transports = TransportConfig::read_all(reader, root);
        let (mut queues, queue_places) = each(reader, root, "queue", QueueConfig::read);
        let (routes, route_places) = each(reader, root, "route", |reader, section| {
            RouteConfig::read(reader, section, &transports)
        });
        let (poison_retries, poison_retry_places) =
            each(reader, root, "poison_retry", PoisonRetryConfig::read);
        if !["queue", "route", "poison_retry"].into_iter().any(|list| root.has(list)) {
            queues.push(default_queue(reader));
        }
        let network = NetworkConfig::read(reader, &root.table("network"));
        let (tokens, token_places) = each(reader, root, "token", TokenConfig::read);
        let dead_letters = DeadLettersConfig::read(reader, &root.table("dead_letters"));
        let log = LogConfig::read(reader, &root.table("log"));
        let telemetry = TelemetryConfig::read(reader, &root.table("telemetry"));
        let places = ListPositions {
            queues: queue_places,
            routes: route_places,
            poison_retries: poison_retry_places,
            tokens: token_places,
        };
        (
            Self {
                server,
                store,
                transports,
                queues,
                routes,
                poison_retries,
                network,
                tokens,
                dead_letters,
                log,
                telemetry,
            },
            places,
        )
    }
}

/// The broker of a queue, and its name there.
pub(super) fn broker_of<'t>(
    transports: &'t [TransportConfig],
    queue: &QueueName,
) -> Option<(&'t TransportConfig, QueueName)> {
    let (name, queue) = queue.as_str().split_once('/')?;
    let transport = transports.iter().find(|it| it.name.as_str() == name)?;
    Some((transport, QueueName::new(queue).ok()?))
}

fn default_queue(reader: &mut SectionReader<'_>) -> QueueConfig {
    let path = Path::parse("queue[0].name");
    reader.show(&path, "default".to_owned(), &Origin::Default);
    QueueConfig::new(QueueName::new("default").expect("it is a valid name"))
}

/// The positions of list elements in the file: invalid elements before them may be missing from the [`Config`].
pub(super) struct ListPositions {
    pub(super) queues: Vec<Path>,
    pub(super) routes: Vec<Path>,
    pub(super) poison_retries: Vec<Path>,
    pub(super) tokens: Vec<Path>,
}

fn each<T>(
    reader: &mut SectionReader<'_>,
    root: &Section<'_>,
    name: &str,
    read: impl Fn(&mut SectionReader<'_>, &Section<'_>) -> Option<T>,
) -> (Vec<T>, Vec<Path>) {
    let sections = root.tables(name).into_iter();
    sections.filter_map(|section| Some((read(reader, &section)?, section.path))).unzip()
}

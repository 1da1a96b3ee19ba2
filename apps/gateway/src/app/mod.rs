//! The state that the API and the background tasks share: store, brokers, routes and tokens.
//!
//! What a reload may change is in [`LiveSettings`], behind one lock that is never held across an `.await`; everything
//! else is fixed for the life of the process.
//!
//! | file | contents |
//! | --- | --- |
//! | `directory.rs` | which queues and routes there are, and where a queue lives |
//! | `ingest.rs` | stores accepted messages |
//! | `edit_rules.rs` | whose dead letters may be edited |
//! | `origin.rs` | the id of this store in exports |
//! | `broker_counts.rs` | the counts of queues on brokers, measured in the background |
//! | `queue_status.rs`, `queue_api.rs` | a snapshot of a queue, and its form in the API |
//! | `write_health.rs` | whether the store accepts messages |

mod broker_counts;
mod directory;
mod edit_rules;
mod ingest;
mod origin;
mod queue_api;
mod queue_status;
mod write_health;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use bezoar::{Bezoar, Clock, QueueName, Shutdown, catalogue::Catalogue, ops::Conductor};
use jiff::Timestamp;
use tokio::sync::Semaphore;

pub(crate) use broker_counts::BrokerCounts;
pub(crate) use edit_rules::EditRules;
pub(crate) use write_health::WriteHealth;

use crate::{
    access::Access,
    api::{BodyMemory, RefusalLog},
    audit_anchor::AuditAnchor,
    broker::Broker,
    config::MetricsAccess,
    dead_letter_intake::Intakes,
    poison_retry::PoisonRetries,
    route::Route,
    store::Leadership,
    telemetry::{Correlation, Metrics},
};

/// The shared state.
#[derive(Debug)]
pub(crate) struct App {
    /// The store.
    pub(crate) bezoar: Bezoar,
    /// Brokers by name.
    pub(crate) brokers: BTreeMap<String, Broker>,
    pub(crate) catalogue: Arc<dyn Catalogue>,
    /// The same for what only one gateway on a store may do.
    pub(crate) catalogue_of_leader: Arc<dyn Catalogue>,
    pub(crate) leadership: Leadership,
    pub(crate) conductor: Conductor,
    pub(crate) audit_anchor: AuditAnchor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listen: SocketAddr,
    pub(crate) max_body_bytes: usize,
    /// The memory for request bodies.
    pub(crate) body_memory: BodyMemory,
    /// The requests whose messages may be stored at a time.
    pub(crate) room: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) metrics_access: MetricsAccess,
    pub(crate) correlation: Correlation,
    pub(crate) error_texts: ErrorTexts,
    pub(crate) shutdown: Shutdown,
    /// The tasks that take in dead letters from brokers.
    pub(crate) intakes: Intakes,
    /// The processors of poison queues.
    pub(crate) poison_retries: PoisonRetries,
    pub(crate) live: RwLock<LiveSettings>,
    /// Which refused requests were logged.
    pub(crate) refusal_log: RefusalLog,
    /// The counts of queues on brokers.
    pub(crate) broker_counts: BrokerCounts,
    /// Whether the store accepts messages.
    pub(crate) writes: WriteHealth,
}

/// Whether the log shows the texts of errors. It cannot be set in the configuration or the environment: only
/// the command that starts the gateway can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorTexts {
    /// It does not: they may contain personal data.
    #[default]
    Hidden,
    /// It does, for development only.
    ShownForDevelopment,
}

/// The settings that a reload may change.
#[derive(Debug, Default)]
pub(crate) struct LiveSettings {
    pub(crate) access: Arc<Access>,
    pub(crate) queues: BTreeSet<QueueName>,
    pub(crate) routes: BTreeMap<String, Arc<Route>>,
    pub(crate) editable: EditRules,
}

impl App {
    pub(crate) fn catalogue(&self) -> &Arc<dyn Catalogue> {
        &self.catalogue
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.room
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shutdown.is_draining()
    }

    pub(crate) fn access(&self) -> Arc<Access> {
        self.live(|live| live.access.clone())
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn live<T>(&self, look: impl FnOnce(&LiveSettings) -> T) -> T {
        look(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }
}

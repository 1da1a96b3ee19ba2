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
//! | `queue_status.rs`, `queue_api.rs` | a snapshot of a queue, and its form in the API |

mod directory;
mod edit_rules;
mod ingest;
mod origin;
mod queue_api;
mod queue_status;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use bezoar::{Bezoar, Clock, QueueName, Shutdown, catalogue::Catalogue, ops::Conductor};
use jiff::Timestamp;
use tokio::{sync::Semaphore, time::Instant};

pub(crate) use edit_rules::EditRules;

use crate::{
    access::Access,
    audit_anchor::AuditAnchor,
    broker::Broker,
    dead_letter_intake::Intakes,
    poison_retry::PoisonRetries,
    route::Route,
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
    pub(crate) conductor: Conductor,
    pub(crate) audit_anchor: AuditAnchor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listen: SocketAddr,
    pub(crate) max_body_bytes: usize,
    pub(crate) room: Semaphore,
    pub(crate) metrics: Metrics,
    pub(crate) correlation: Correlation,
    pub(crate) error_texts: ErrorTexts,
    pub(crate) shutdown: Shutdown,
    /// The tasks that take in dead letters from brokers.
    pub(crate) intakes: Intakes,
    /// The processors of poison queues.
    pub(crate) poison_retries: PoisonRetries,
    pub(crate) live: RwLock<LiveSettings>,
    /// When the store last refused a message because it is full.
    pub(crate) full: Mutex<Option<Instant>>,
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
    pub(crate) fn bezoar(&self) -> &Bezoar {
        &self.bezoar
    }

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

    pub(crate) fn is_on_loopback(&self) -> bool {
        self.listen.ip().is_loopback()
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

//! The options of the queues.

use std::{fmt, sync::Arc};

use bezoar_core::{Clock, SystemClock};

use crate::Transition;

/// The options of the queues.
#[derive(Clone)]
pub struct Options {
    /// The clock to use.
    pub clock: Arc<dyn Clock>,
    /// The largest body that is accepted.
    pub max_message_bytes: usize,
    /// Called for every move of a message, while it happens, to check that each move is legal.
    pub watch: Option<Arc<dyn Fn(Transition) + Send + Sync>>,
}

impl Default for Options {
    /// The system clock, and bodies of up to 16 MiB.
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), max_message_bytes: 16 * 1024 * 1024, watch: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("clock", &self.clock)
            .field("max_message_bytes", &self.max_message_bytes)
            .finish_non_exhaustive()
    }
}

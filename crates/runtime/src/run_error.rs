//! Why workers could not start, or stopped by themselves.

use std::{error::Error, fmt};

use bezoar_core::{Invalid, QueueName, TransportError};

/// Why workers ended without being told to stop: a kind, and its source.
///
/// A transport that fails while workers run is not such an error: it pauses them and is logged.
#[derive(Debug)]
pub struct RunError {
    kind: RunErrorKind,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The kind of a [`RunError`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunErrorKind {
    /// A worker has settings that are out of range. Nothing was started.
    InvalidSettings {
        /// The worker's queue.
        queue: QueueName,
        /// Every invalid setting, in the order in which they were set.
        problems: Vec<Invalid>,
    },
    /// The queue could not be opened or created. Nothing was started. The source is the [`TransportError`].
    QueueUnavailable(QueueName),
    /// The operating system refused to report signals such as Ctrl-C.
    NoSignals,
    /// A worker panicked outside of a handler, which is a bug in Bezoar. The other workers were stopped gracefully.
    WorkerPanicked,
}

impl RunError {
    pub(crate) fn new(kind: RunErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// The queue could not be opened or created.
    pub fn queue_unavailable(queue: QueueName, error: TransportError) -> Self {
        Self { kind: RunErrorKind::QueueUnavailable(queue), source: Some(error.into()) }
    }

    /// The operating system refused to report signals.
    pub fn no_signals(error: std::io::Error) -> Self {
        Self { kind: RunErrorKind::NoSignals, source: Some(error.into()) }
    }

    /// The kind, for code that must react to it.
    pub fn kind(&self) -> &RunErrorKind {
        &self.kind
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RunErrorKind::InvalidSettings { queue, problems } => {
                write!(f, "invalid settings of the worker for queue {queue}: ")?;
                for (at, problem) in problems.iter().enumerate() {
                    write!(f, "{}{problem}", if at > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
            RunErrorKind::QueueUnavailable(queue) => write!(f, "queue {queue} unavailable"),
            RunErrorKind::NoSignals => f.write_str("cannot listen for signals such as Ctrl-C"),
            RunErrorKind::WorkerPanicked => {
                f.write_str("a worker panicked; the log shows where; please report it")
            }
        }
    }
}

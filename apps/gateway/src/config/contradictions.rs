//! Values that are valid by themselves but contradict each other.

mod poison_queues;
mod poison_retry;
mod rules;

use bezoar::Finding;
use bezoar_core::Severity;

use super::{Config, model::ListPositions, path::Path};

/// Finds values that contradict each other, or are unwise together.
pub fn contradictions(config: &Config) -> Vec<Finding> {
    let named = |contradiction: Contradiction| {
        let key = contradiction.place.plain().to_string();
        let Finding { severity, problem, remedy, .. } = contradiction.finding;
        Finding::new(severity, format!("{key} {problem}"), remedy)
    };
    all(config).into_iter().map(named).collect()
}

/// All contradictions, each with its key.
pub(super) fn all(config: &Config) -> Vec<Contradiction> {
    rules::RULES.iter().flat_map(|rule| rule(config)).collect()
}

/// Values that contradict each other.
pub(super) struct Contradiction {
    pub(super) place: ConfigKey,
    /// The problem is worded to follow the key.
    pub(super) finding: Finding,
    /// Not reported if there are problems in keys with this prefix.
    pub(super) moot_with: &'static str,
}

impl Contradiction {
    fn error(place: ConfigKey, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Error, place, problem.into(), remedy.into())
    }

    fn warning(place: ConfigKey, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, place, problem.into(), remedy.into())
    }

    fn new(severity: Severity, place: ConfigKey, problem: String, remedy: String) -> Self {
        Self { place, finding: Finding::new(severity, problem, remedy), moot_with: "" }
    }

    fn moot_with(self, moot_with: &'static str) -> Self {
        Self { moot_with, ..self }
    }
}

/// The key of a contradiction; elements of lists by their position in the [`Config`].
#[derive(Debug, Clone, Copy)]
pub(super) enum ConfigKey {
    Key(&'static str),
    Queue(usize, &'static str),
    Route(usize, &'static str),
    PoisonRetry(usize, &'static str),
    Token(usize, &'static str),
}

impl ConfigKey {
    /// The key as written in the file.
    pub(super) fn key(self, places: &ListPositions) -> String {
        let element = match self {
            Self::Key(_) => None,
            Self::Queue(index, key) => places.queues.get(index).map(|path| path.key(key)),
            Self::Route(index, key) => places.routes.get(index).map(|path| path.key(key)),
            Self::PoisonRetry(index, key) => {
                places.poison_retries.get(index).map(|path| path.key(key))
            }
            Self::Token(index, key) => places.tokens.get(index).map(|path| path.key(key)),
        };
        element.unwrap_or_else(|| self.plain()).to_string()
    }

    /// The key by position in the [`Config`].
    fn plain(self) -> Path {
        let element = |list, index, key| Path::default().key(list).index(index).key(key);
        match self {
            Self::Key(key) => Path::parse(key),
            Self::Queue(index, key) => element("queue", index, key),
            Self::Route(index, key) => element("route", index, key),
            Self::PoisonRetry(index, key) => element("poison_retry", index, key),
            Self::Token(index, key) => element("token", index, key),
        }
    }
}

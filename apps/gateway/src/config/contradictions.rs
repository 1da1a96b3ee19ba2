//! Values that are right each for itself, and do not go together.

mod rules;

use bezoar::Finding;
use bezoar_core::Severity;

use super::{Config, model::ListPositions, path::Path};

/// What does not go together, or will not for long.
pub fn contradictions(config: &Config) -> Vec<Finding> {
    let named = |contradiction: Contradiction| {
        let key = contradiction.place.plain().to_string();
        let Finding { severity, problem, remedy } = contradiction.finding;
        Finding { severity, problem: format!("{key} {problem}"), remedy }
    };
    all(config).into_iter().map(named).collect()
}

/// All contradictions, with the key that each is said of.
pub(super) fn all(config: &Config) -> Vec<Contradiction> {
    rules::RULES.iter().flat_map(|rule| rule(config)).collect()
}

/// Something that does not go together.
pub(super) struct Contradiction {
    pub(super) place: ConfigKey,
    /// Its problem is fit to follow the key.
    pub(super) finding: Finding,
    /// Not worth saying if there are problems in keys that begin so.
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
        Self { place, finding: Finding { severity, problem, remedy }, moot_with: "" }
    }

    fn moot_with(self, moot_with: &'static str) -> Self {
        Self { moot_with, ..self }
    }
}

/// The key that a contradiction is said of; elements of lists by their position in the [`Config`].
#[derive(Debug, Clone, Copy)]
pub(super) enum ConfigKey {
    Key(&'static str),
    Queue(usize, &'static str),
    Route(usize, &'static str),
    Token(usize, &'static str),
}

impl ConfigKey {
    /// As it was written.
    pub(super) fn key(self, places: &ListPositions) -> String {
        let element = match self {
            Self::Key(_) => None,
            Self::Queue(index, key) => places.queues.get(index).map(|path| path.key(key)),
            Self::Route(index, key) => places.routes.get(index).map(|path| path.key(key)),
            Self::Token(index, key) => places.tokens.get(index).map(|path| path.key(key)),
        };
        element.unwrap_or_else(|| self.plain()).to_string()
    }

    /// By position in the [`Config`].
    fn plain(self) -> Path {
        let element = |list, index, key| Path::default().key(list).index(index).key(key);
        match self {
            Self::Key(key) => Path::parse(key),
            Self::Queue(index, key) => element("queue", index, key),
            Self::Route(index, key) => element("route", index, key),
            Self::Token(index, key) => element("token", index, key),
        }
    }
}

//! Rules that decide what a typed error means, looked up by the error's type.
//!
//! `?` turns every error into a [`Failure`] by the same conversion, which does not know the error's type. The
//! failure keeps the error, and a [`Classifier`] recognizes it later, however many errors it is wrapped in. ADR
//! 0008 lists the alternatives.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use crate::{Code, Failure, FailureError, FailureKind};

/// What a rule of a [`Classifier`] says about an error: its kind, and optionally a code and a minimum wait.
///
/// A [`FailureKind`] converts into one, and so does a kind with a [`Code`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Classification {
    /// Decides whether the message is retried. *Unknown* leaves the decision to the next error in the chain.
    pub kind: FailureKind,
    /// The code by which causes are grouped, if the rule names one.
    pub code: Option<Code>,
    /// The minimum wait, if the error names one.
    pub retry_after: Option<Duration>,
}

impl Classification {
    /// A classification with this kind and nothing else.
    pub const fn new(kind: FailureKind) -> Self {
        Self { kind, code: None, retry_after: None }
    }

    /// Sets the code.
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the minimum wait.
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Sets what the failure does not say yet: a code or a wait that the handler set is kept.
    fn apply(self, failure: &mut Failure) {
        failure.kind = self.kind;
        if let Some(code) = self.code.filter(|_| failure.code == Code::UNKNOWN) {
            failure.code = code;
        }
        failure.retry_after = failure.retry_after.or(self.retry_after);
    }
}

impl From<FailureKind> for Classification {
    fn from(kind: FailureKind) -> Self {
        Self::new(kind)
    }
}

impl From<(FailureKind, Code)> for Classification {
    fn from((kind, code): (FailureKind, Code)) -> Self {
        Self::new(kind).with_code(code)
    }
}

type Rule = Arc<dyn Fn(&(dyn Error + 'static)) -> Option<Classification> + Send + Sync>;

/// Rules that say what errors mean, by their types. Cheap to clone.
#[derive(Clone, Default)]
pub struct Classifier {
    rules: Vec<Rule>,
}

impl Classifier {
    /// Adds a rule for errors of type `E`. A later rule for the same type takes precedence.
    pub fn add<E, C>(&mut self, rule: impl Fn(&E) -> C + Send + Sync + 'static)
    where
        E: Error + 'static,
        C: Into<Classification>,
    {
        self.rules.push(Arc::new(move |error| Some(rule(error.downcast_ref::<E>()?).into())));
    }

    /// Decides the kind of a failure that `?` created. The rules are applied to each error in its chain, from
    /// the outermost inward; the first result other than *unknown* decides. A failure whose kind was given
    /// explicitly does not change.
    pub fn classify(&self, failure: &mut Failure) {
        if failure.kind != FailureKind::Unknown {
            return;
        }
        let decided = failure.errors().find_map(|error| self.decide(error));
        if let Some(classification) = decided {
            classification.apply(failure);
        }
    }

    fn decide(&self, error: &(dyn Error + 'static)) -> Option<Classification> {
        let earlier =
            error.downcast_ref::<FailureError>().map(|FailureError(earlier)| Classification {
                kind: earlier.kind,
                code: Some(earlier.code.clone()),
                retry_after: earlier.retry_after,
            });
        let rules = self.rules.iter().rev().filter_map(|rule| rule(error));
        earlier.into_iter().chain(rules).find(|decided| decided.kind != FailureKind::Unknown)
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier").field("rules", &self.rules.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum LabError {
        #[error("implausible")]
        Implausible,
        #[error("archive")]
        Archive(#[from] io::Error),
    }

    impl LabError {
        fn kind(&self) -> FailureKind {
            match self {
                Self::Implausible => FailureKind::Permanent,
                Self::Archive(_) => FailureKind::Unknown,
            }
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] LabError);

    fn classifier() -> Classifier {
        let mut classifier = Classifier::default();
        classifier.add(LabError::kind);
        classifier.add(|error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => (FailureKind::NotFound, Code::from_static("no-file")).into(),
            _ => Classification::new(FailureKind::Unknown),
        });
        classifier
    }

    fn check(failure: impl Into<Failure>, kind: FailureKind, code: &str) {
        let mut failure = failure.into();
        classifier().classify(&mut failure);
        assert_eq!((failure.kind, failure.code.as_str()), (kind, code));
    }

    #[test]
    fn an_error_is_recognized_by_its_type_and_through_its_wrappers() {
        check(LabError::Implausible, FailureKind::Permanent, "unknown");
        check(Wrapped(LabError::Implausible), FailureKind::Permanent, "unknown");
        let boxed: Box<dyn Error + Send + Sync> = LabError::Implausible.into();
        check(boxed, FailureKind::Permanent, "unknown");
        check("a text", FailureKind::Unknown, "unknown");
    }

    #[test]
    fn unknown_leaves_the_decision_to_the_source() {
        let no_file = || LabError::from(io::Error::from(io::ErrorKind::NotFound));
        check(no_file(), FailureKind::NotFound, "no-file");
        check(Wrapped(no_file()), FailureKind::NotFound, "no-file");
        check(io::Error::other("else"), FailureKind::Unknown, "unknown");
    }

    #[test]
    fn an_explicit_kind_is_kept() {
        check(Failure::transient(LabError::Implausible), FailureKind::Transient, "unknown");
        let coded = Failure::from(LabError::Implausible).with_code(Code::from_static("mine"));
        check(coded, FailureKind::Permanent, "mine");
        let decided = FailureError(Failure::permanent("no").with_code(Code::from_static("x")));
        check(decided, FailureKind::Permanent, "x");
    }
}

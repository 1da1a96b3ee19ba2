//! Questions to the management API that the user may not be allowed to ask.

use bezoar_core::{ErrorKind, Finding, Severity, TransportError};

use crate::check::findings::finding;

/// What the management API answered, or a note that the user may not ask.
pub(crate) enum Inspected<T> {
    Seen(T),
    Denied(Finding),
}

/// A missing permission is a note; other problems are errors.
pub(crate) fn inspect<T>(
    answer: Result<T, TransportError>,
    what: &str,
) -> Result<Inspected<T>, TransportError> {
    match answer {
        Ok(seen) => Ok(Inspected::Seen(seen)),
        Err(failed) if failed.kind == ErrorKind::NotAuthorized => {
            let remedy = "give the user of management_url the tag `monitoring`";
            Ok(Inspected::Denied(not_checked(what, remedy)))
        }
        Err(failed) => Err(failed),
    }
}

/// A note about what could not be checked.
pub(crate) fn not_checked(what: &str, remedy: &str) -> Finding {
    finding(Severity::Note, format!("{what} could not be checked"), remedy)
}

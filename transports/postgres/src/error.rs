//! Maps errors of PostgreSQL and of its connections to those of the contract.
//!
//! PostgreSQL quotes values in its messages, so only the SQLSTATE of an error is shown, never its text.

use bezoar_core::{ErrorKind, Invalid, QueueName, TransportError};

pub(crate) const TRANSPORT: &str = "postgres";

pub(crate) fn error(kind: ErrorKind, operation: &'static str) -> TransportError {
    TransportError::new(kind, TRANSPORT, operation)
}

pub(crate) fn no_queue(queue: &QueueName, operation: &'static str) -> TransportError {
    error(ErrorKind::QueueNotFound(queue.clone()), operation)
}

pub(crate) fn unusable(problem: impl Into<String>) -> TransportError {
    error(ErrorKind::Unusable, "open").with_source(problem.into())
}

pub(crate) fn invalid(invalid: Invalid) -> TransportError {
    error(ErrorKind::Invalid(invalid), "open")
}

const STANDBY: &str =
    "the server is a read-only standby; connect to the primary, or wait until this one is promoted";

pub(crate) fn standby(operation: &'static str) -> TransportError {
    error(ErrorKind::Unavailable, operation).with_source(STANDBY)
}

/// The only place that maps the driver's errors.
pub(crate) fn from_sqlx(source: &sqlx::Error, operation: &'static str) -> TransportError {
    if let Some(state) = sqlstate(source) {
        let (kind, remedy) = classify(&state);
        return error(kind, operation).with_source(format!("{remedy} (SQLSTATE {state})"));
    }
    let (kind, remedy) = match source {
        sqlx::Error::Io(lost) => {
            (ErrorKind::Unavailable, format!("connection lost ({})", lost.kind()))
        }
        sqlx::Error::Tls(_) => (
            ErrorKind::Unavailable,
            "the TLS handshake failed; check the server's certificate, and the CA that is trusted"
                .to_owned(),
        ),
        sqlx::Error::PoolTimedOut => (
            ErrorKind::Unavailable,
            "no connection in time; the server is not reachable, or all connections are in use"
                .to_owned(),
        ),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
            (ErrorKind::Unavailable, "connection closed".to_owned())
        }
        sqlx::Error::Protocol(_) => {
            (ErrorKind::Unavailable, "the server did not answer as PostgreSQL does".to_owned())
        }
        _ => (ErrorKind::Other, "unexpected answer of the server".to_owned()),
    };
    error(kind, operation).with_source(remedy)
}

fn classify(state: &str) -> (ErrorKind, &'static str) {
    match state {
        "25006" => (ErrorKind::Unavailable, STANDBY),
        "53100" => (ErrorKind::Full, "the server's disk is full; free some space"),
        "53300" => (
            ErrorKind::Unavailable,
            "the server has no free connection; lower max_connections here, or raise it there",
        ),
        "57014" => (
            ErrorKind::Unavailable,
            "the statement took longer than statement_timeout; look for locks and a busy server",
        ),
        "55P03" => (ErrorKind::Unavailable, "another session holds a lock"),
        "42501" => (
            ErrorKind::NotAuthorized,
            "the user lacks a privilege; grant it as the owner of the schema",
        ),
        "3D000" => (ErrorKind::Unusable, "there is no such database; create it"),
        "3F000" | "42P01" => (
            ErrorKind::Unusable,
            "the schema is missing or incomplete; create it as its owner, with migrate on",
        ),
        "42703" | "42883" => (
            ErrorKind::Unusable,
            "the schema is not the one of this version; migrate it, or use another schema",
        ),
        _ => match state.get(..2) {
            Some("08") => (ErrorKind::Unavailable, "connection failed"),
            Some("28") => (ErrorKind::NotAuthorized, "the server refused user or password"),
            Some("40") => (ErrorKind::Unavailable, "other transactions were in the way"),
            Some("53") => (ErrorKind::Unavailable, "the server is short of memory or connections"),
            Some("57") => (ErrorKind::Unavailable, "the server is shutting down or starting"),
            Some("58" | "XX") => {
                (ErrorKind::Unavailable, "the server has a problem; look at its log")
            }
            _ => (ErrorKind::Other, "unexpected"),
        },
    }
}

fn sqlstate(source: &sqlx::Error) -> Option<String> {
    Some(source.as_database_error()?.code()?.into_owned())
}

/// Whether the connection was lost while the server worked: nobody knows whether the transaction was committed.
/// After an answer with an SQLSTATE it was not.
pub(crate) fn is_lost(source: &sqlx::Error) -> bool {
    matches!(source, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed)
}

/// Whether the transaction was rolled back because of others, so that it can be repeated at once.
pub(crate) fn is_rolled_back_for_others(source: &sqlx::Error) -> bool {
    matches!(sqlstate(source).as_deref(), Some("40001" | "40P01"))
}

/// Whether the error says that there is no such schema or table.
pub(crate) fn is_missing(source: &sqlx::Error) -> bool {
    matches!(sqlstate(source).as_deref(), Some("3F000" | "42P01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_trouble_has_its_kind() {
        for (state, kind) in [
            ("08006", ErrorKind::Unavailable),
            ("57P01", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("53100", ErrorKind::Full),
            ("53300", ErrorKind::Unavailable),
            ("42501", ErrorKind::NotAuthorized),
            ("28P01", ErrorKind::NotAuthorized),
            ("3F000", ErrorKind::Unusable),
            ("42P01", ErrorKind::Unusable),
            ("40P01", ErrorKind::Unavailable),
            ("22021", ErrorKind::Other),
            ("", ErrorKind::Other),
        ] {
            assert_eq!(classify(state).0, kind, "{state}");
        }
    }

    #[test]
    fn only_a_lost_connection_leaves_the_outcome_unknown() {
        assert!(is_lost(&sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())));
        assert!(!is_lost(&sqlx::Error::PoolTimedOut));
    }
}

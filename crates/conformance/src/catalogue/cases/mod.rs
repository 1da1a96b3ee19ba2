//! The cases, one file per subject.

pub(crate) mod audit_log;
pub(crate) mod broker_intake;
pub(crate) mod causes;
pub(crate) mod expiry;
pub(crate) mod imports;
pub(crate) mod lists;
pub(crate) mod operations;
pub(crate) mod outcomes;
pub(crate) mod plans;
pub(crate) mod recognition;
pub(crate) mod requests;
pub(crate) mod restarts;
pub(crate) mod settings;
pub(crate) mod versions;

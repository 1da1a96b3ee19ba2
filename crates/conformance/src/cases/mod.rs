//! The cases: one file per subject, one function per promise.

pub(crate) mod admin;
pub(crate) mod attempts;
pub(crate) mod bodies;
pub(crate) mod cancellation;
pub(crate) mod concurrency;
pub(crate) mod dead_letters;
pub(crate) mod delays;
pub(crate) mod envelope;
pub(crate) mod feed;
pub(crate) mod headers;
pub(crate) mod leases;
pub(crate) mod once;
pub(crate) mod ordering;
pub(crate) mod replay;
pub(crate) mod restart;
pub(crate) mod sending;
pub(crate) mod settlement;
pub(crate) mod waiting;

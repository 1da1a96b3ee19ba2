//! The real program, and a client for it.

#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses what it needs")]

pub(crate) mod client;
pub(crate) mod hl7_receivers;
pub(crate) mod program;

/// How long anything may take here.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

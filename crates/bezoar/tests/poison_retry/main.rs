//! The poison-queue retry processor on a queue in memory, in virtual time, with faults at every step.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches;
mod delays;
mod faults;
mod memory_queue;
mod reports;
mod runs;
mod support;

//! Several gateways on one PostgreSQL store: the real program, and a server that is killed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod check;
#[path = "../replay_kill/endpoint.rs"]
mod endpoint;
#[path = "../replay_kill/evidence.rs"]
mod evidence;
mod lab;
mod pauses;
mod replay;
mod restart;
mod sharing;
#[path = "../support/mod.rs"]
mod support;

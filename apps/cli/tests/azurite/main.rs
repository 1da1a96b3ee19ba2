//! The gateway on Azure Storage Queue: the real program, a private Azurite, and Microsoft's client for Python as the program
//! of somebody else.
//!
//! Azurite saves its data every few seconds, so it proves the protocol and not durability: gateways are killed here, Azurite
//! never is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod endpoint;
mod evidence;
mod faults;
mod kills;
mod lab;
mod life;
mod poison_queues;
mod poison_retry;
mod proxy;
#[path = "../hl7/receivers.rs"]
mod receivers;
mod sizes;
#[path = "../support/mod.rs"]
mod support;

//! Brokers that are killed, connections that are cut, alarms. Under load, and nothing is lost.
//!
//! Each test starts a broker of its own, so that it harms no other; one at a time, as they are heavy.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod faults {
    mod checker;
    mod cuts;
    mod hasty;
    mod kills;
    mod load;
    mod server;
    mod trouble;
}

//! Killed brokers, cut connections and alarms under load: no message is lost.
//!
//! Each test starts a private broker; one test at a time, because they are heavy.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod faults {
    mod broker_kills;
    mod broker_problems;
    mod checker;
    mod connection_cuts;
    mod load;
    mod node_kills;
    mod server;
    mod unconfirmed_sender;
}

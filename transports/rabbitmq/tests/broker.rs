//! What the contract cannot ask of every transport: delays to the millisecond, other clients, lost
//! connections, topology. Against a real broker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod broker {
    mod ahead;
    mod alarms;
    mod bad_input;
    mod connections;
    mod dead;
    mod delays;
    mod doctor;
    mod foreign;
    mod give_back;
    mod private_broker;
    mod process;
    mod quarantine;
    mod redelivery;
    mod refused;
    mod repair;
    mod support;
    mod tls;
    mod topology;
    mod vhost;
}

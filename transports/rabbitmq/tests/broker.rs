//! Tests against a real broker for what the contract does not require of every transport: exact delays, other clients,
//! lost connections, topology, quarantine.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod broker {
    mod alarms;
    mod bad_input;
    mod connections;
    mod consumer_timeout;
    mod dead_letter_feed;
    mod delays;
    mod existing_topology;
    mod full_queues;
    mod held_acks;
    mod least_privilege;
    mod many_queues;
    mod other_clients;
    mod overdue;
    mod pika;
    mod plans;
    mod prefetch;
    mod private_broker;
    mod process;
    mod quarantine;
    mod redelivery;
    mod refused_settlements;
    mod relays;
    mod repair;
    mod replay;
    mod round_trips;
    mod streams;
    mod support;
    mod tls;
    mod topology;
    mod topology_check;
    mod unroutable;
    mod vhost;
}

//! Tests against Azurite for what the contract does not require of every transport: other clients, Azure's errors, lost
//! answers, sizes, times to live.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod azurite {
    mod bad_input;
    mod claim_check;
    mod concurrency;
    mod errors;
    mod faulty_proxy;
    mod lost_answers;
    mod microsoft_clients;
    mod other_clients;
    mod poison_queues;
    mod poison_retry;
    mod poison_retry_table;
    mod secrecy;
    mod support;
    mod tokens;
}

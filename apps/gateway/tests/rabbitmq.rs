//! Queues of a real RabbitMQ broker: delivered from, set aside, taken in, replayed and shared.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

mod rabbitmq {
    mod broken;
    mod broker;
    mod counted;
    mod delivery;
    mod pika;
    mod replays;
    mod unusable_queues;
}

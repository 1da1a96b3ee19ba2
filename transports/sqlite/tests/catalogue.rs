//! The catalogue of dead letters: what operators see and do, and that every count is what can be counted.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod catalogue {
    mod acts;
    mod audit;
    mod brokers;
    mod causes;
    mod frozen;
    mod hidden;
    mod listing;
    mod migration;
    mod operations;
    mod outcomes;
    mod refusals;
    mod sums;
    mod versions;

    mod census;
    mod ward;
}

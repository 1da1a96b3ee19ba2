//! The catalogue in SQLite, beyond its contract: rows, indexes, migrations, and counters that match a recount.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod catalogue {
    mod audit;
    mod frozen;
    mod hidden;
    mod migration;
    mod refusals;
    mod rows;
    mod sums;

    mod census;
    mod ward;
}

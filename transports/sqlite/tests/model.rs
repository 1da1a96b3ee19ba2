//! SQLite behaves like the model: random operations run on both, and the results are compared after
//! each.
//!
//! Both read one clock that stands still, so every time agrees to the millisecond. Receipts and ids of
//! dead letters differ by nature, so they are identified by their order of appearance. A failing case
//! is stored in `model.regressions`; `PROPTEST_CASES=5000` runs longer.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod model {
    pub(crate) mod flaw;
    pub(crate) mod pair;
    pub(crate) mod side;
    pub(crate) mod step;
}

use std::num::NonZeroU32;

use bezoar_core::{Message, MessageId, MessageType, Reason, Settlement, millis};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, FileFailurePersistence, TestError, TestRunner},
};

use self::model::{
    flaw::Flaw,
    pair::Pair,
    step::{Afterwards, Chosen, LEASE, Pick, QUEUES, Step, name, step},
};

const STEPS: usize = 60;
const REGRESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model.regressions");

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sqlite_does_what_the_model_does(steps in vec(step(), 1..STEPS)) {
        compare(&steps, Flaw::None)?;
    }
}

/// The negative control: the comparison must find each of these flaws.
#[test]
fn every_flaw_that_is_built_in_is_found() {
    for flaw in Flaw::ALL {
        let config = Config { failure_persistence: None, max_shrink_iters: 0, ..config() };
        let steps = vec(step(), 1..STEPS);
        let outcome = TestRunner::new(config).run(&steps, |steps| compare(&steps, flaw));
        assert!(matches!(outcome, Err(TestError::Fail(..))), "{flaw:?} was not found");
    }
}

// Cases that random runs have found.

#[test]
fn a_dropped_receive_leaves_a_lease_that_had_run_out_as_it_was() {
    check(&[
        send("a"),
        receive(1),
        Step::Elapse(LEASE),
        Step::ReceiveAndDrop { queue: 0, max: NonZeroU32::MIN },
        settle(0, Settlement::Complete),
    ]);
}

#[test]
fn a_replay_restores_the_order_in_which_messages_were_sent() {
    let dead = || Settlement::DeadLetter {
        reason: Reason::new(Reason::EXHAUSTED, "retries exhausted"),
        tries: Vec::new(),
    };
    check(&[
        send("a"),
        send("b"),
        receive(2),
        settle(1, dead()),
        settle(0, dead()),
        Step::Replay { queue: name(QUEUES[0]), chosen: Chosen::All },
        receive(2),
    ]);
}

#[track_caller]
fn check(steps: &[Step]) {
    compare(steps, Flaw::None).unwrap();
}

fn send(id: &str) -> Step {
    let (id, message_type) = (MessageId::new(id).unwrap(), MessageType::new("lab.result").unwrap());
    let batch = vec![Message::new(id, message_type, millis(0), "").into()];
    Step::Send { to: name(QUEUES[0]).into(), batch }
}

fn receive(max: u32) -> Step {
    Step::Receive { queue: 0, max: NonZeroU32::new(max).unwrap() }
}

/// Settles one of the leased deliveries.
fn settle(which: usize, settlement: Settlement) -> Step {
    Step::Settle(vec![(Pick(which), settlement, Afterwards::Forgotten)])
}

fn compare(steps: &[Step], flaw: Flaw) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut pair = Pair::start(flaw).await;
        for step in steps {
            pair.step(step).await?;
        }
        Ok(())
    })
}

fn config() -> Config {
    let chosen = std::env::var_os("PROPTEST_CASES").is_some();
    let default = Config::default();
    Config {
        cases: if chosen { default.cases } else { 300 },
        // A full path, because the default looks for a `lib.rs` in a parent folder, and `tests` has
        // none.
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..default
    }
}

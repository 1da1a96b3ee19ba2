//! Nothing that was answered with 202 is lost when the gateway is killed, again and again, under load.
//!
//! The real program is started on the same store, loaded by many clients and killed with -9 at random
//! moments. In the end what the clients were promised is compared with what the endpoint got.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod endpoint;
mod evidence;
mod hasty;
mod message;
mod producers;
mod run;
#[path = "../support/mod.rs"]
mod support;

use run::Run;
use support::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_accepted_is_lost_when_the_gateway_is_killed_under_load() {
    let cycles = from_environment("BEZOAR_KILL_CYCLES").map_or(15, |it| it as u32);
    let seed = from_environment("BEZOAR_KILL_SEED").unwrap_or_else(rand::random);
    let run = Run::new(|folder, _| Program::up(folder), seed).await;
    let evidence = run.cycles(cycles).await;
    println!("{cycles} kills: {evidence}");
    let verdict = evidence.judge();
    assert!(verdict.is_good(), "{verdict:?}");
    assert!(evidence.accepted.len() > 50 * cycles as usize, "under load: {evidence}");
    assert!(!evidence.dead.is_empty(), "with poison: {evidence}");
}

/// The negative control: who promises before it is durable must be caught.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_promises_too_early_is_caught() {
    let evidence = Run::new(hasty::start, 7).await.cycles(3).await;
    println!("the control: {evidence}");
    assert!(!evidence.judge().lost.is_empty(), "the comparison must notice: {evidence}");
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

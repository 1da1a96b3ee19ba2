//! Random mixes of poison, droppers and weather. The laws hold in all of them.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;

/// What a healthy message waits at most once the weather is good: two minutes, a pause for every five poison messages,
/// and a minute for every message that crashes the endpoint ten times before it is dead.
fn longest_delay(poison: usize, droppers: usize) -> Duration {
    let number = |count: usize| u32::try_from(count).unwrap();
    2 * MINUTE + 17 * SECOND * number(poison / 5) + MINUTE * number(droppers)
}

fn weather(chance: &mut StdRng) -> Weather {
    match chance.random_range(0..10) {
        0 => Weather::Refused,
        1 => Weather::Throttled(None),
        2 => Weather::Throttled(Some(5 * SECOND)),
        3 => Weather::Unavailable,
        4 => Weather::Failing,
        5 => Weather::Hanging,
        6 => Weather::Shedding(0.5),
        7 => Weather::Rolling(0.3),
        8 => Weather::Unacknowledged,
        _ => Weather::Healthy,
    }
}

fn natures(chance: &mut StdRng, count: usize) -> Vec<Nature> {
    let (poison, droppers) = (chance.random_range(0.0..0.05), chance.random_range(0.0..0.01));
    let mut nature = || match chance.random_range(0.0..1.0) {
        part if part < poison => Nature::Poison,
        part if part < poison + droppers => Nature::Dropper,
        _ => Nature::Healthy,
    };
    (0..count).map(|_| nature()).collect()
}

/// Poison at random among healthy messages, and nothing else: no healthy message waits longer than one longest pause
/// for every five poison messages, and one more.
async fn check_poison(seed: u64) {
    println!("seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let part = chance.random_range(0.0..0.5);
    let nature = |chance: &mut StdRng| match chance.random_bool(part) {
        true => Nature::Poison,
        false => Nature::Healthy,
    };
    let natures: Vec<_> = (0..200).map(|_| nature(&mut chance)).collect();
    let poison = natures.iter().filter(|it| **it == Nature::Poison).count();
    let concurrency = [1, 4, 16][chance.random_range(0..3)];
    let plan = Plan { concurrency, seed, ..Plan::default() };
    let pause = Duration::from_millis(chance.random_range(0..200));
    let report = run(&plan, every(pause, natures), 3 * HOUR).await;
    let summary = format!("{} of {plan:?}", report.summary());
    assert_eq!(report.dead(Nature::Poison).len(), poison, "{summary}");
    assert_eq!(report.delivered(Nature::Healthy).len(), 200 - poison, "{summary}");
    let longest = report.delays.iter().max().copied().unwrap_or_default();
    println!("{poison} poison of 200, {pause:?} apart, concurrency {concurrency}: {longest:?}");
    let bound = 17 * SECOND * u32::try_from(1 + poison / 5).unwrap();
    assert!(longest <= bound, "{longest:?}: {summary}");
}

async fn check_mix(seed: u64) {
    println!("seed {seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let (mut until, mut changes) = (Duration::ZERO, Vec::new());
    for _ in 0..chance.random_range(0..6) {
        until += SECOND * chance.random_range(1..60);
        changes.push((until, weather(&mut chance)));
    }
    let natures = natures(&mut chance, 300);
    let of = |nature| natures.iter().filter(|it| **it == nature).count();
    let (healthy, poison, droppers) =
        (of(Nature::Healthy), of(Nature::Poison), of(Nature::Dropper));
    let restart = chance.random_bool(0.5).then_some(SECOND);
    let concurrency = [1, 4, 16][chance.random_range(0..3)];
    let plan = Plan { concurrency, weather: changes, restart, seed, ..Plan::default() };
    let report = run(&plan, every(Duration::from_millis(50), natures), 3 * HOUR).await;
    let summary = format!("{} of {plan:?}", report.summary());
    let dead = report.dead(Nature::Healthy).len();
    assert!(dead <= 20, "{summary}");
    assert_eq!(report.delivered(Nature::Healthy).len() + dead, healthy, "{summary}");
    assert_eq!(report.dead(Nature::Poison).len(), poison, "{summary}");
    assert_eq!(report.dead(Nature::Dropper).len(), droppers, "{summary}");
    let last = report.last_delivery();
    assert!(
        last <= until.max(15 * SECOND) + longest_delay(poison, droppers),
        "{last:?}: {summary}"
    );
}

#[tokio::test(start_paused = true)]
async fn in_any_mix_poison_dies_and_healthy_messages_arrive() {
    for seed in 0..20 {
        check_mix(seed).await;
        check_poison(seed).await;
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "takes long; cargo xtask soak"]
async fn soak_in_any_mix_poison_dies_and_healthy_messages_arrive() {
    for seed in 0..1_000 {
        check_mix(seed).await;
        check_poison(seed).await;
    }
}

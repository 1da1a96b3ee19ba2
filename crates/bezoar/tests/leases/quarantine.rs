//! A message that may have crashed its process runs in a slot of its own, beside everything else.

use std::{num::NonZeroU32, sync::atomic::AtomicUsize};

use bezoar::SubscribeOptions;

use super::*;

/// A process takes `count` messages and dies, as often as `deaths` says.
async fn die_with(transport: &Scripted, count: u32, deaths: u32) {
    let options = SubscribeOptions::default().with_lease(SECOND);
    for _ in 0..deaths {
        let open = transport.memory.subscribe(&lab(), options).await.unwrap();
        let max = NonZeroU32::new(count).unwrap();
        let taken = open.receive(max, 2 * SECOND).await.unwrap();
        assert_eq!(taken.len(), count as usize);
        sleep(2 * SECOND).await;
    }
}

/// How many of these ran at the same time.
fn most_at_once(runs: &Runs, ids: &[String]) -> usize {
    let all: Vec<_> = ids.iter().flat_map(|id| runs.of(id)).collect();
    let beside = |start: Instant| {
        all.iter().filter(|(from, to)| *from <= start && to.is_none_or(|to| to > start)).count()
    };
    all.iter().map(|(start, _)| beside(*start)).max().unwrap_or(0)
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}-1")).collect()
}

async fn send_named(transport: &Scripted, ids: &[String]) {
    send(transport, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test(start_paused = true)]
async fn one_death_makes_no_suspects() {
    let (transport, runs) = (Scripted::new().await, Runs::default());
    let lost = names("lost", 16);
    send_named(&transport, &lost).await;
    die_with(&transport, 16, 1).await;
    let running = run(&transport, worker(&transport, &runs));
    until_empty(&transport).await;
    assert_eq!(most_at_once(&runs, &lost), 16, "all at once, as usual");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_two_deaths_suspects_run_one_at_a_time_and_the_rest_continues() {
    let (transport, runs) = (Scripted::new().await, Runs::default());
    let suspects = names("suspect", 8);
    send_named(&transport, &suspects).await;
    die_with(&transport, 8, 2).await;
    let fresh = names("fresh", 64);
    send_named(&transport, &fresh).await;
    let (start, running) = (Instant::now(), run(&transport, worker(&transport, &runs)));
    until_empty(&transport).await;
    assert_eq!(most_at_once(&runs, &suspects), 1, "suspects run one at a time");
    let ended = fresh.iter().map(|id| runs.of(id)[0].1.unwrap()).max().unwrap();
    assert!(ended - start <= 5 * SECOND, "64 in 16 slots take 4 s, and took {:?}", ended - start);
    let all: Vec<_> = suspects.iter().chain(&fresh).collect();
    assert!(all.iter().all(|id| runs.count(id) == 1), "each is handled once");
    running.stop().await;
}

/// What a suspect waits for: those that cannot run now are handed back before it starts, so that they are not
/// blamed if it crashes the process.
#[tokio::test(start_paused = true)]
async fn a_suspect_starts_only_when_the_others_are_safely_back() {
    let mut transport = Scripted::new().await;
    let (runs, released) = (Runs::default(), Arc::new(AtomicUsize::new(0)));
    let counted = released.clone();
    transport.settle = Arc::new(move |settlement| {
        if matches!(settlement, bezoar::Settlement::Release { .. }) {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            return Answer::After(2 * SECOND);
        }
        Answer::Works
    });
    let suspects = names("suspect", 3);
    send_named(&transport, &suspects).await;
    die_with(&transport, 3, 2).await;
    let (start, running) = (Instant::now(), run(&transport, worker(&transport, &runs)));
    until_empty(&transport).await;
    let first = suspects.iter().map(|id| runs.of(id)[0].0).min().unwrap();
    assert!(first - start >= 2 * SECOND, "it did not wait: {:?}", first - start);
    assert!(released.load(std::sync::atomic::Ordering::SeqCst) >= 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_leaves_quarantine_once_it_has_an_outcome() {
    let (transport, runs) = (Scripted::new().await, Runs::default());
    let failing: Vec<_> = (0..4).map(|number| format!("bad{number}-5")).collect();
    send_named(&transport, &failing).await;
    die_with(&transport, 4, 2).await;
    let running = run(&transport, worker(&transport, &runs));
    until_empty(&transport).await;
    for id in &failing {
        assert_eq!(runs.count(id), 4, "each had four attempts");
    }
    let dead = transport.memory.dead_letters(&lab(), Default::default()).await.unwrap();
    assert!(dead.iter().all(|it| it.reason.to_string() == "max retries (3) exhausted"), "{dead:?}");
    assert!(most_at_once(&runs, &failing) > 1, "later attempts run beside others again");
    running.stop().await;
}

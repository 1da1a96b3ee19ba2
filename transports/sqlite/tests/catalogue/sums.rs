//! After any sequence of actions every stored counter matches a recount.
//!
//! `BEZOAR_SEEDS=500` runs longer; a failure names its seed, which `BEZOAR_SEED` runs alone.

use std::time::Duration;

use bezoar_core::{
    Clock, DeadLetterAccess, DeadLetterId, DeadLetterIds, FailureKind, Message, Reason, Settlement,
    catalogue::{
        CatalogueError, CauseState, Filter, HeldLetters, OperationCommand, OperationKind,
        OperationPlan, ReplayIds, Selection, Verb,
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    census::{broken, check},
    ward::*,
};

const STEPS: usize = 80;
const QUEUES: [&str; 2] = ["lab", "x-ray"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn counters_are_what_can_be_counted_after_any_acts() {
    let seeds = number("BEZOAR_SEED")
        .map_or(0..number("BEZOAR_SEEDS").unwrap_or(12), |seed| seed..seed + 1);
    for seed in seeds {
        let (ward, mut random) = (Ward::new().await, StdRng::seed_from_u64(seed));
        for step in 0..STEPS {
            act_at_random(&ward, &mut random).await;
            assert_eq!(broken(&ward), [""; 0], "seed {seed}, step {step}");
        }
        agree(&ward).await;
    }
}

/// The negative control: the check finds each of these violations.
#[tokio::test]
async fn a_counter_that_is_off_is_noticed() {
    for harm in [
        "UPDATE bezoar_queues SET dead = dead + 1 WHERE id = 1",
        "UPDATE bezoar_causes SET count = count - 1 WHERE count > 0",
        "UPDATE bezoar_operations SET completed = completed + 1, failed = failed - 1",
        "UPDATE bezoar_items SET state = 'waiting'",
        "UPDATE bezoar_dead SET cause = NULL",
        "DELETE FROM bezoar_dead",
        "INSERT INTO bezoar_waiting SELECT 1, 0, max(seq), NULL, 0, 0, 0, 0, 0 FROM bezoar_messages",
    ] {
        let ward = Ward::new().await;
        ward.kill_many("lab", 2, "boom").await;
        ward.run(replay(), everything()).await;
        ward.settle_all("lab", &dead("boom")).await;
        check(&ward);
        ward.sql(harm);
        assert_ne!(broken(&ward), [""; 0], "{harm}");
    }
}

async fn act_at_random(ward: &Ward, random: &mut StdRng) {
    let queue_name = QUEUES[random.random_range(0..2)];
    ward.clock.advance(Duration::from_millis(random.random_range(0..900_000)));
    match random.random_range(0..20) {
        0..=3 => {
            for _ in 0..random.random_range(1..6) {
                ward.send(queue_name, message(&random.random_range(0..50).to_string())).await;
            }
        }
        4..=8 => settle_some(ward, random, queue_name).await,
        9..=10 => plan_some(ward, random).await,
        11..=14 => steer(ward, random).await,
        15 => edit_one(ward, random).await,
        16 => replay_or_discard(ward, random, queue_name).await,
        17 => expire_some(ward, random).await,
        18 => import_one(ward, random).await,
        _ => mark_or_regroup(ward, random).await,
    }
}

async fn settle_some(ward: &Ward, random: &mut StdRng, queue_name: &str) {
    let held = ward.receive(queue_name, random.random_range(1..8)).await;
    for held in held {
        let tries = vec![failed_try(
            FailureKind::ALL[random.random_range(0..FailureKind::ALL.len())],
            ["boom", "bang"][random.random_range(0..2)],
            ["no patient 1", "no doctor 2"][random.random_range(0..2)],
        )];
        let after = Duration::from_millis(random.random_range(0..9));
        let how = match random.random_range(0..10) {
            0..=1 => Settlement::Complete,
            2 => Settlement::Retry { after, tries },
            3 => Settlement::Release { after },
            4 => Settlement::DeadLetter { reason: Reason::max_deliveries(3), tries: vec![] },
            _ => Settlement::DeadLetter { reason: reason(), tries },
        };
        ward.settle(queue_name, vec![held], &how).await;
    }
}

async fn some_ids(ward: &Ward, random: &mut StdRng) -> Vec<DeadLetterId> {
    let mut ids = Vec::new();
    for entry in ward.list(&Filter::default()).await {
        if random.random_bool(0.4) {
            ids.push(entry.id);
        }
    }
    ids
}

async fn plan_some(ward: &Ward, random: &mut StdRng) {
    let kind = match random.random_range(0..5) {
        0 => OperationKind::Discard,
        kind => OperationKind::Replay {
            canary: random.random_range(0..3),
            per_second: None,
            stop_after: random.random_bool(0.5).then_some(2),
            ids: if kind == 1 { ReplayIds::New } else { ReplayIds::Same },
        },
    };
    let filter = Filter {
        queues: random.random_bool(0.5).then(|| vec![queue("lab")]),
        replayed: random.random_bool(0.2).then_some(true),
        ..Filter::default()
    };
    let selection = match random.random_bool(0.5) {
        true => Selection::Ids(some_ids(ward, random).await),
        false => Selection::Matching(filter),
    };
    let expect = random.random_bool(0.1).then_some(3);
    let planned = ward
        .store
        .plan(
            &OperationPlan { kind, selection, expect, held: HeldLetters::Skip, request: None },
            &act(Verb::Replay),
        )
        .await;
    assert!(matches!(planned, Ok(_) | Err(CatalogueError::Unexpected { .. })), "{planned:?}");
}

async fn steer(ward: &Ward, random: &mut StdRng) {
    let all = ward.store.operations(100).await.unwrap();
    for operation in all.into_iter().filter(|it| !it.state.has_ended()) {
        match random.random_range(0..10) {
            0 => drop(
                ward.store.command(operation.id, OperationCommand::Pause, &act(Verb::Replay)).await,
            ),
            1 => drop(ward.command(operation.id, OperationCommand::Cancel).await),
            2 => drop(ward.store.stop(operation.id, "enough").await.unwrap()),
            3..=5 => drop(ward.command(operation.id, OperationCommand::Run).await),
            _ => drop(ward.advance(operation.id, random.random_range(0..6)).await),
        }
    }
}

async fn edit_one(ward: &Ward, random: &mut StdRng) {
    for id in some_ids(ward, random).await.into_iter().take(1) {
        let message: Message = ward.store.record(id).await.unwrap().message;
        let edited = ward.store.edit(id, message, random.random_bool(0.5), &act(Verb::Edit)).await;
        if let Ok(edited) = edited {
            let _ = ward.store.approve(edited.id, &act_of("bob", Verb::Approve)).await;
        }
    }
}

async fn replay_or_discard(ward: &Ward, random: &mut StdRng, queue_name: &str) {
    let some = DeadLetterIds::Ids(some_ids(ward, random).await);
    if random.random_bool(0.5) {
        ward.store.replay(&queue(queue_name), &some).await.unwrap();
    } else {
        ward.store.discard(&queue(queue_name), &some).await.unwrap();
    }
}

async fn expire_some(ward: &Ward, random: &mut StdRng) {
    let age = Duration::from_secs(random.random_range(0..9_000));
    let before = ward.clock.now() - age;
    ward.store.expire(before, random.random_range(1..5), &act(Verb::Expire)).await.unwrap();
}

async fn import_one(ward: &Ward, random: &mut StdRng) {
    if let Some(entry) = ward.list(&Filter::default()).await.first() {
        let record = ward.store.record(entry.id).await.unwrap();
        let stamp = random.random_range(0..4).to_string();
        ward.store.import(vec![(stamp, record)], &act(Verb::Import)).await.unwrap();
    }
}

async fn mark_or_regroup(ward: &Ward, random: &mut StdRng) {
    if random.random_bool(0.3) {
        ward.sql("UPDATE bezoar_causes SET version = 0, id = printf('v0:%016x', number) WHERE number % 3 = 0 AND version = 1");
        while ward.store.regroup(3).await.unwrap() > 0 {}
    }
    for cause in ward.store.causes(&Filter::default(), 2).await.unwrap() {
        let state = CauseState::ALL[random.random_range(0..CauseState::ALL.len())];
        ward.store.mark(&cause.id, state, Some("seen"), &act(Verb::Mark)).await.unwrap();
    }
}

/// Operators see what is stored, whichever query they use.
async fn agree(ward: &Ward) {
    let all = ward.list(&Filter::default()).await;
    assert_eq!(ward.one("SELECT count(*) FROM bezoar_dead") as usize, all.len());
    for state in ["open", "held", "edited", "unapproved"] {
        let filter = Filter { state: Some(state), ..Filter::default() };
        let expected: Vec<_> = all.iter().filter(|it| it.state.as_str() == state).collect();
        let found = ward.list(&filter).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{state}");
    }
    for cause in ward.store.causes(&Filter::default(), 1_000).await.unwrap() {
        let filter = Filter { cause: Some(cause.id.clone()), ..Filter::default() };
        let expected = all.iter().filter(|it| it.cause == cause.id).count();
        assert_eq!((cause.count as usize, ward.list(&filter).await.len()), (expected, expected));
    }
}

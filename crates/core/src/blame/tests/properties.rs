//! Properties that hold for any sequence of calls.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Enter(u64),
    Leave(usize, CallOutcome),
    Abandon(usize),
    Pass(u64),
    Elsewhere(u64),
    Reachable,
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        Just(CallOutcome::Done),
        Just(CallOutcome::Answered),
        (0..40_u32).prop_map(|asked| CallOutcome::Throttled { after: Some(asked * SECOND) }),
        Just(CallOutcome::Unsent),
        any::<bool>().prop_map(|fresh_connection| CallOutcome::Ambiguous { fresh_connection }),
        Just(CallOutcome::Misdirected),
        Just(CallOutcome::Unacknowledged),
        Just(CallOutcome::Gone),
        Just(CallOutcome::Failed),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..30_u64).prop_map(Step::Enter),
        4 => (0..16_usize, outcome()).prop_map(|(at, outcome)| Step::Leave(at, outcome)),
        1 => (0..16_usize).prop_map(Step::Abandon),
        2 => (0..20_000_u64).prop_map(Step::Pass),
        1 => (0..30_u64).prop_map(Step::Elsewhere),
        1 => Just(Step::Reachable),
    ]
}

fn check_judgement(outcome: CallOutcome, judgement: Judgement, others_succeeded: bool) {
    match outcome {
        CallOutcome::Done | CallOutcome::Answered | CallOutcome::Failed => {
            assert_eq!(judgement, Judgement::Counts);
        }
        CallOutcome::Unsent | CallOutcome::Throttled { .. } => assert_eq!(judgement, UNCOUNTED),
        AMBIGUOUS if !others_succeeded => assert_eq!(judgement, UNCOUNTED),
        CallOutcome::Ambiguous { .. } => assert_ne!(judgement, Judgement::Counts),
        CallOutcome::Misdirected | CallOutcome::Unacknowledged => {
            assert_ne!(judgement, SUSPECTED);
        }
        CallOutcome::Gone => assert!(!matches!(judgement, Judgement::Uncounted { .. })),
    }
}

fn run(steps: Vec<Step>) -> Sim {
    let (mut sim, mut calls) = (Sim::new(), Vec::new());
    let mut succeeded = false;
    for step in steps {
        match step {
            Step::Enter(_) if calls.len() == 16 => (),
            Step::Enter(key) => calls.extend(sim.try_enter(fresh(key)).ok()),
            Step::Leave(at, outcome) if at < calls.len() => {
                let call = calls.swap_remove(at);
                check_judgement(outcome, sim.leave(call, outcome), succeeded);
                succeeded |= outcome == CallOutcome::Done;
                let life = matches!(outcome, CallOutcome::Done | CallOutcome::Answered);
                assert!(
                    !life || sim.state() == BreakerState::Closed,
                    "a sign of life closes the breaker"
                );
            }
            Step::Abandon(at) if at < calls.len() => sim.blame.abandon(calls.swap_remove(at)),
            Step::Pass(time) => sim.pass(Duration::from_millis(time)),
            Step::Elsewhere(key) => {
                sim.blame.unsent_elsewhere((key, sim.now()), &CODE, sim.now(), 0.0);
            }
            Step::Reachable => sim.blame.reachable(sim.now()),
            Step::Leave(..) | Step::Abandon(_) => (),
        }
    }
    calls.into_iter().for_each(|call| sim.blame.abandon(call));
    sim
}

proptest! {
    #[test]
    fn after_any_sequence_a_message_is_admitted_eventually(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut sim = run(steps);
        sim.pass(40 * SECOND); // longer than any configured or requested pause
        prop_assert!(matches!(sim.admit(), Admission::UpTo(_)));
        let call = sim.try_enter(fresh(1_000)).expect("a new message is admitted");
        sim.leave(call, CallOutcome::Done);
        prop_assert_eq!(sim.state(), BreakerState::Closed);
    }
}

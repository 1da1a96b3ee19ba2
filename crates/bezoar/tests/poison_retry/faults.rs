//! A fault at every request of a run, one at a time: whatever happens, no message is lost, none is delivered more often
//! than its retries and the faults allow, and all of them end as they should.

use tokio::time::{sleep, timeout};

use crate::{
    memory_queue::{Betrayal, Fault, MemoryQueue},
    support::{Deliveries, MINUTE, processor},
};

const FAULTS: [Fault; 6] = [
    Fault::Unavailable,
    Fault::LostAnswer,
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::Panic,
    Fault::Refused,
];

/// The messages: how they behave, how often they are delivered without faults, and whether they end as dead letters.
const MESSAGES: [(&str, u32, bool); 7] = [
    ("accept", 1, false),
    ("accept 2", 2, false),
    ("accept 3", 3, false),
    ("refuse", 3, true),
    ("reject", 1, true),
    ("panic", 3, true),
    ("undecodable", 0, true),
];

/// How many requests there are without a fault: more than this are never tried.
const MOST_REQUESTS: u32 = 60;

/// What went wrong in a world, if anything did.
type Verdict = Result<(), String>;

/// Runs until the queue is empty, with a fault at request `at`. Returns `None` if there was no such request.
async fn world(betrayal: Betrayal, at: u32, fault: Fault) -> Option<Verdict> {
    let (queue, deliveries) = (MemoryQueue::new().betraying(betrayal), Deliveries::default());
    for (body, ..) in MESSAGES {
        queue.put(body, body, 0);
    }
    queue.fail_at(at, fault);
    for _ in 0..60 {
        let processor = processor(&queue, &deliveries);
        let run = timeout(30 * MINUTE, async {
            tokio::select! { _ = processor.run_once() => (), () = queue.crashed() => () }
        });
        run.await.expect("a run ends");
        if let Some(lost) = lost(&queue, &deliveries) {
            return Some(Err(lost));
        }
        if queue.state().messages.is_empty() {
            break;
        }
        sleep(4 * MINUTE).await;
    }
    let made = queue.state().made;
    (made > at).then(|| judge(&queue, &deliveries))
}

/// A message that is in no place, if there is one.
fn lost(queue: &MemoryQueue, deliveries: &Deliveries) -> Option<String> {
    let state = queue.state();
    let is_somewhere = |body: &str| {
        let is_dead = state.dead.iter().any(|(id, ..)| id == body);
        let is_delivered = body
            .split_once(' ')
            .map_or(("accept" == body).then_some(1), |it| it.1.parse().ok())
            .is_some_and(|at: u32| deliveries.of(body) >= at);
        state.messages.contains_key(body) || is_dead || is_delivered
    };
    let lost = MESSAGES.iter().find(|(body, ..)| !is_somewhere(body));
    lost.map(|(body, ..)| format!("{body} is lost"))
}

fn judge(queue: &MemoryQueue, deliveries: &Deliveries) -> Verdict {
    let state = queue.state();
    if let Some(id) = state.messages.keys().next() {
        return Err(format!("{id} never ends"));
    }
    for (body, expected, is_dead) in MESSAGES {
        let delivered = deliveries.of(body);
        // A fault costs at most one delivery whose outcome could not be stored.
        if !(expected..=expected + 1).contains(&delivered) {
            return Err(format!("{body} was delivered {delivered} times, not {expected}"));
        }
        let records = state.dead.iter().filter(|(id, ..)| id == body).count();
        if !(usize::from(is_dead)..=2 * usize::from(is_dead)).contains(&records) {
            return Err(format!("{body} has {records} records"));
        }
    }
    Ok(())
}

async fn all_worlds(betrayal: Betrayal) -> Vec<String> {
    bezoar::quiet_panics(); // hundreds of backtraces take minutes
    let mut problems = Vec::new();
    for fault in FAULTS {
        for at in 0..MOST_REQUESTS {
            match world(betrayal, at, fault).await {
                None => break,
                Some(Ok(())) => (),
                Some(Err(problem)) => problems.push(format!("{fault:?} at {at}: {problem}")),
            }
        }
    }
    problems
}

#[tokio::test(start_paused = true)]
async fn no_fault_at_any_request_loses_a_message_or_changes_its_end() {
    let reached = world(Betrayal::None, 25, Fault::Unavailable).await;
    assert!(reached.is_some(), "a run has so many requests");
    assert_eq!(all_worlds(Betrayal::None).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_checks_catch_a_queue_that_loses_records() {
    let problems = all_worlds(Betrayal::LosesRecords).await;
    assert!(problems.iter().all(|it| it.contains("is lost")), "{problems:?}");
    assert!(problems.len() > 100);
}

#[tokio::test(start_paused = true)]
async fn the_checks_catch_a_queue_that_forgets_counts() {
    let problems = all_worlds(Betrayal::ForgetsCounts).await;
    assert!(problems.iter().any(|it| it.contains("never ends")), "{problems:?}");
}

/// Deliveries of which the delay is forgotten come too early, which the test of the delays catches.
#[tokio::test(start_paused = true)]
async fn a_queue_that_forgets_delays_delivers_at_once() {
    let (queue, deliveries) =
        (MemoryQueue::new().betraying(Betrayal::ForgetsDelays), Deliveries::default());
    queue.put("m", "refuse", 0);
    let processor = processor(&queue, &deliveries);
    processor.run_once().await.unwrap();
    assert_eq!(processor.run_once().await.unwrap().taken, 1);
}

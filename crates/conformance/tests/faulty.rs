//! The fault-injecting wrapper: without faults it behaves like the inner transport, with faults it
//! fails as planned.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use async_trait::async_trait;
use bezoar_conformance::{Fault, Faulty, Harness, Operation, Step, seeded};
use bezoar_core::{
    Destination, ErrorKind, ManualClock, Message, MessageId, MessageType, Outgoing, QueueAdmin,
    QueueName, Settlement, SubscribeOptions, Transport, TransportError, millis,
};
use bezoar_memory::{MemoryTransport, Options};

struct FaultlessHarness {
    memory: MemoryTransport,
    clock: Arc<ManualClock>,
}

impl FaultlessHarness {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let options =
            Options { clock: clock.clone(), max_message_bytes: 256 * 1024, ..Options::default() };
        Self { memory: MemoryTransport::new(options), clock }
    }
}

#[async_trait]
impl Harness for FaultlessHarness {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Faulty::new(Arc::new(self.memory.clone()), Arc::new(|_| Fault::None)))
    }

    fn admin(&self) -> Arc<dyn QueueAdmin> {
        Arc::new(self.memory.clone())
    }

    async fn elapse(&self, by: Duration) {
        self.clock.advance(by);
    }
}

bezoar_conformance::suite!(FaultlessHarness::new);

fn queue() -> QueueName {
    QueueName::new("lab").unwrap()
}

fn batch() -> [Outgoing; 2] {
    ["a", "b"].map(|id| {
        let (id, message_type) = (MessageId::new(id).unwrap(), MessageType::new("t").unwrap());
        Message::new(id, message_type, millis(0), "body").into()
    })
}

/// A queue whose `step`s all have this fault.
async fn with_fault(step: Step, fault: Fault) -> (MemoryTransport, Faulty) {
    let memory = MemoryTransport::default();
    memory.provision(&queue()).await.unwrap();
    let plan = move |operation: Operation| {
        assert_eq!(operation.queue, queue(), "the plan gets the queue");
        if operation.step == step { fault } else { Fault::None }
    };
    (memory.clone(), Faulty::new(Arc::new(memory), Arc::new(plan)))
}

async fn ready(memory: &MemoryTransport) -> Option<u64> {
    memory.depth(&queue()).await.unwrap().ready
}

#[tokio::test]
async fn a_fault_before_does_nothing_and_says_unavailable() {
    let (memory, faulty) = with_fault(Step::Send, Fault::Before).await;
    for result in faulty.send(&Destination::from(queue()), &batch()).await {
        assert_eq!(result.unwrap_err().kind, ErrorKind::Unavailable);
    }
    assert_eq!(ready(&memory).await, Some(0));
}

#[tokio::test]
async fn a_fault_after_does_it_and_does_not_say() {
    let (memory, faulty) = with_fault(Step::Send, Fault::After).await;
    let results = faulty.send(&Destination::from(queue()), &batch()).await;
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result.unwrap_err().kind, ErrorKind::OutcomeUnknown);
    }
    assert_eq!(ready(&memory).await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_delay_does_it_later() {
    let (memory, faulty) = with_fault(Step::Send, Fault::Delay(Duration::from_secs(9))).await;
    let start = tokio::time::Instant::now();
    assert!(faulty.send(&Destination::from(queue()), &batch()).await.iter().all(Result::is_ok));
    assert_eq!(start.elapsed().as_secs(), 9);
    assert_eq!(ready(&memory).await, Some(2));
}

#[tokio::test]
async fn every_step_can_fail() {
    let steps = [
        (Step::Subscribe, "subscribe"),
        (Step::Receive, "receive"),
        (Step::Extend, "extend"),
        (Step::Settle, "settle"),
        (Step::Close, "close"),
    ];
    for (step, name) in steps {
        let (_, faulty) = with_fault(step, Fault::After).await;
        faulty.send(&Destination::from(queue()), &batch()).await;
        let error = work_with(&faulty).await.unwrap_err();
        assert_eq!((error.operation, error.kind), (name, ErrorKind::OutcomeUnknown));
    }
}

/// Calls each method once, until one fails.
async fn work_with(faulty: &Faulty) -> Result<(), TransportError> {
    let options = SubscribeOptions::default();
    let opened = faulty.subscribe(&queue(), options).await?;
    let mut delivery = opened.receive(NonZeroU32::MIN, Duration::ZERO).await?.remove(0);
    opened.extend(std::slice::from_mut(&mut delivery), options.lease).await.remove(0)?;
    opened.settle(vec![(delivery, Settlement::Complete)]).await.remove(0)?;
    opened.close().await
}

#[test]
fn a_seed_gives_the_same_faults_again() {
    let faults = |seed| {
        let (plan, operation) = (seeded(seed, 0.5), Operation { step: Step::Send, queue: queue() });
        (0..100).map(|_| plan(operation.clone())).collect::<Vec<_>>()
    };
    assert_eq!(faults(7), faults(7));
    assert_ne!(faults(7), faults(8));
    let failing = faults(7).iter().filter(|fault| **fault != Fault::None).count();
    assert!((30..70).contains(&failing), "about half must fail, got {failing}");
}

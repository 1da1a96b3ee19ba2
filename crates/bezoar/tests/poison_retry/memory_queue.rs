//! A poison queue in memory: the reference for what access to a queue means, with a fault on demand.

use std::{
    collections::BTreeMap,
    future::pending,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use bezoar::{
    CorrelationId, ErrorKind, FailedTry, Message, MessageId, MessageType, QueueName, Reason,
    Timestamp, TransportError,
    poison_retry::{PoisonContent, PoisonEnd, PoisonMessage, PoisonQueue},
};
use tokio::{sync::Notify, time::Instant};

/// What goes wrong at one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The queue is down for this request.
    Unavailable,
    /// The request takes effect, and its answer is lost.
    LostAnswer,
    /// The process dies before the request.
    CrashBefore,
    /// The process dies after the request.
    CrashAfter,
    /// The access panics.
    Panic,
    /// The queue refuses the request for good.
    Refused,
}

/// A way in which a queue betrays its callers, for negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Betrayal {
    #[default]
    None,
    /// A dead-letter record is confirmed and not stored.
    LosesRecords,
    /// An update leaves the retry count as it is.
    ForgetsCounts,
    /// An update makes the message visible at once.
    ForgetsDelays,
}

/// A message in the queue.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) body: String,
    pub(crate) retry_count: u32,
    pub(crate) visible_at: Instant,
    receipt: u64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) exists: bool,
    pub(crate) messages: BTreeMap<String, Stored>,
    /// The dead-letter records: the id of the message, its body, retry count and reason.
    pub(crate) dead: Vec<(String, String, u32, String)>,
    /// Every request that took effect.
    pub(crate) requests: Vec<String>,
    /// How many requests were made.
    pub(crate) made: u32,
    receipts: u64,
    fault: Option<(u32, Fault)>,
    betrayal: Betrayal,
}

/// Clones are the same queue.
#[derive(Debug, Clone)]
pub(crate) struct MemoryQueue {
    name: QueueName,
    state: Arc<Mutex<State>>,
    crashed: Arc<Notify>,
}

impl MemoryQueue {
    pub(crate) fn new() -> Self {
        let state = State { exists: true, ..State::default() };
        let name = QueueName::new("results-poison").unwrap();
        Self { name, state: Arc::new(Mutex::new(state)), crashed: Arc::default() }
    }

    pub(crate) fn betraying(self, betrayal: Betrayal) -> Self {
        self.state().betrayal = betrayal;
        self
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn put(&self, id: &str, body: &str, retry_count: u32) {
        let (body, visible_at) = (body.to_owned(), Instant::now());
        let stored = Stored { body, retry_count, visible_at, receipt: 0 };
        self.state().messages.insert(id.to_owned(), stored);
    }

    /// Lets something go wrong at the request with this number, from 0.
    pub(crate) fn fail_at(&self, request: u32, fault: Fault) {
        self.state().fault = Some((request, fault));
    }

    /// Waits until the process has "died".
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Makes a request, with the fault that is due.
    async fn request<T>(
        &self,
        work: impl FnOnce(&mut State) -> Result<T, TransportError>,
    ) -> Result<T, TransportError> {
        match self.next_fault() {
            None => work(&mut self.state()),
            Some(Fault::Unavailable) => Err(error(ErrorKind::Unavailable)),
            Some(Fault::Refused) => Err(error(ErrorKind::NotAuthorized)),
            Some(Fault::Panic) => panic!("the access to the queue has a bug"),
            Some(Fault::LostAnswer) => {
                work(&mut self.state())?;
                Err(error(ErrorKind::OutcomeUnknown))
            }
            Some(Fault::CrashBefore) => self.crash().await,
            Some(Fault::CrashAfter) => {
                let _ = work(&mut self.state());
                self.crash().await
            }
        }
    }

    fn next_fault(&self) -> Option<Fault> {
        let mut state = self.state();
        let number = state.made;
        state.made += 1;
        state.fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault)
    }

    async fn crash<T>(&self) -> T {
        self.crashed.notify_one();
        pending().await
    }
}

fn error(kind: ErrorKind) -> TransportError {
    TransportError::new(kind, "memory", "poison queue")
}

#[async_trait]
impl PoisonQueue for MemoryQueue {
    fn name(&self) -> &QueueName {
        &self.name
    }

    async fn create(&self) -> Result<(), TransportError> {
        self.request(|state| {
            state.exists = true;
            state.requests.push("create".to_owned());
            Ok(())
        })
        .await
    }

    async fn take(
        &self,
        max: NonZeroU32,
        invisibility: Duration,
    ) -> Result<Vec<Box<dyn PoisonMessage>>, TransportError> {
        let taken = self.request(|state| state.take(max, invisibility, &self.name)).await?;
        let messages = taken.into_iter().map(|(id, stored)| -> Box<dyn PoisonMessage> {
            Box::new(Leased {
                queue: self.clone(),
                id: MessageId::new(&id).unwrap(),
                correlation_id: CorrelationId::new(format!("c-{id}")).unwrap(),
                stored,
            })
        });
        Ok(messages.collect())
    }
}

impl State {
    fn take(
        &mut self,
        max: NonZeroU32,
        invisibility: Duration,
        name: &QueueName,
    ) -> Result<Vec<(String, Stored)>, TransportError> {
        if !self.exists {
            return Err(error(ErrorKind::QueueNotFound(name.clone())));
        }
        let now = Instant::now();
        let visible = self.messages.iter_mut().filter(|(_, it)| it.visible_at <= now);
        let mut taken = Vec::new();
        for (id, stored) in visible.take(max.get() as usize) {
            self.receipts += 1;
            (stored.receipt, stored.visible_at) = (self.receipts, now + invisibility);
            taken.push((id.clone(), stored.clone()));
        }
        Ok(taken)
    }

    /// The message, if the receipt is still the latest one.
    fn held(&mut self, id: &MessageId, receipt: u64) -> Result<&mut Stored, TransportError> {
        let held = self.messages.get_mut(id.as_str()).filter(|it| it.receipt == receipt);
        held.ok_or_else(|| error(ErrorKind::LeaseLost))
    }
}

#[derive(Debug)]
struct Leased {
    queue: MemoryQueue,
    id: MessageId,
    correlation_id: CorrelationId,
    stored: Stored,
}

#[async_trait]
impl PoisonMessage for Leased {
    fn id(&self) -> &MessageId {
        &self.id
    }

    fn correlation_id(&self) -> Option<&CorrelationId> {
        Some(&self.correlation_id)
    }

    fn retry_count(&self) -> u32 {
        self.stored.retry_count
    }

    fn content(&self) -> PoisonContent {
        match self.stored.body.as_str() {
            "undecodable" => PoisonContent::Unusable(Reason::undecodable()),
            "unavailable" => PoisonContent::Unavailable(error(ErrorKind::Unavailable)),
            body => {
                let kind = MessageType::new("lab.result").unwrap();
                let time = "2026-01-02T03:04:05Z".parse().unwrap();
                let message = Message::new(self.id.clone(), kind, time, body.to_owned());
                PoisonContent::Message(Arc::new(
                    message.with_correlation_id(self.correlation_id.clone()),
                ))
            }
        }
    }

    async fn retry(
        &mut self,
        retry_count: u32,
        after: Duration,
        _: &FailedTry,
    ) -> Result<(), TransportError> {
        let (id, receipt) = (self.id.clone(), self.stored.receipt);
        let receipt = self.queue.request(|state| {
            let betrayal = state.betrayal;
            state.receipts += 1;
            let new = state.receipts;
            let held = state.held(&id, receipt)?;
            held.receipt = new;
            held.visible_at = Instant::now();
            if betrayal != Betrayal::ForgetsDelays {
                held.visible_at += after;
            }
            if betrayal != Betrayal::ForgetsCounts {
                held.retry_count = retry_count;
            }
            state.requests.push(format!("retry {id}"));
            Ok(new)
        });
        self.stored.receipt = receipt.await?;
        Ok(())
    }

    async fn store_dead_letter(
        &mut self,
        reason: &Reason,
        _: Timestamp,
        _: Option<&FailedTry>,
    ) -> Result<(), TransportError> {
        let (id, body) = (self.id.to_string(), self.stored.body.clone());
        let record = (id.clone(), body, self.stored.retry_count, reason.to_string());
        let stored = self.queue.request(|state| {
            if state.betrayal != Betrayal::LosesRecords {
                state.dead.push(record);
            }
            state.requests.push(format!("dead letter {id}"));
            Ok(())
        });
        stored.await
    }

    async fn delete(&mut self, end: PoisonEnd) -> Result<(), TransportError> {
        let (id, receipt) = (self.id.clone(), self.stored.receipt);
        let deleted = self.queue.request(|state| {
            state.held(&id, receipt)?;
            state.messages.remove(id.as_str());
            state.requests.push(format!("delete {id} {end:?}"));
            Ok(())
        });
        deleted.await
    }
}

//! What the journal says and what the endpoint saw, compared.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use serde_json::Value;

/// A call of the endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) replay: String,
    pub(crate) message: String,
    /// Which delivery since the message was sent or replayed: a second sending would count from 1 again.
    pub(crate) delivery: u64,
    pub(crate) redelivered: bool,
}

/// A line of the journal.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) message: String,
    pub(crate) state: String,
}

impl Item {
    pub(crate) fn read(row: &Value) -> Self {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        Self { message: text("message_id"), state: text("state") }
    }
}

#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) replay: String,
    pub(crate) messages: u64,
    pub(crate) items: Vec<Item>,
    pub(crate) dead: u64,
    pub(crate) calls: Vec<Call>,
}

/// One in fifty is refused by the endpoint even after it was mended.
pub(crate) fn is_poison(message: &str) -> bool {
    message.strip_prefix("m-").and_then(|it| it.parse::<u64>().ok()).is_some_and(|it| it % 50 == 49)
}

impl Evidence {
    /// Everything that is not as it should be.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = self.journal();
        problems.extend(self.endpoint());
        let poison = (0..self.messages).filter(|it| is_poison(&format!("m-{it}"))).count() as u64;
        if self.dead != poison {
            problems.push(format!("{} are dead, not {poison}", self.dead));
        }
        problems
    }

    /// Every message once, with the outcome that the endpoint gave it.
    fn journal(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut seen = HashSet::new();
        for Item { message, state } in &self.items {
            if !seen.insert(message) {
                problems.push(format!("{message} is in the journal twice"));
            }
            let expected = if is_poison(message) { "failed_again" } else { "completed" };
            if state != expected {
                problems.push(format!("{message} is {state:?}, not {expected:?}"));
            }
        }
        if self.items.len() as u64 != self.messages {
            problems.push(format!("{} of {} are in the journal", self.items.len(), self.messages));
        }
        problems
    }

    /// Every message at least once, each time as another delivery of the same sending.
    fn endpoint(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut deliveries: BTreeMap<&str, HashSet<u64>> = BTreeMap::new();
        for call in &self.calls {
            if call.replay != self.replay {
                problems.push(format!("{} came by replay {:?}", call.message, call.replay));
            }
            let numbers = deliveries.entry(&call.message).or_default();
            if !numbers.is_empty() && !call.redelivered {
                problems.push(format!("{} came again without saying so", call.message));
            }
            if !numbers.insert(call.delivery) {
                problems.push(format!("{} was sent twice", call.message));
            }
        }
        if deliveries.len() as u64 != self.messages {
            problems.push(format!("{} of {} came", deliveries.len(), self.messages));
        }
        problems
    }

    pub(crate) fn redelivered(&self) -> usize {
        self.calls.iter().filter(|call| call.redelivered).count()
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, redelivered) = (self.calls.len(), self.redelivered());
        let failed = self.items.iter().filter(|item| item.state == "failed_again").count();
        write!(
            f,
            "{} messages replayed, {calls} calls of which {redelivered} redeliveries, {failed} failed again",
            self.items.len()
        )
    }
}

//! What one check has learned from the management API: nothing is asked for twice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bezoar_core::TransportError;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::check::binding_routes::ExchangeBindings;

/// The answers of one check.
#[derive(Debug, Default)]
pub(crate) struct CheckMemory {
    /// The descriptions of queues that exist.
    pub(super) queues: Remembered<Option<Value>>,
    /// The descriptions of exchanges that exist.
    pub(super) exchanges: Remembered<Option<Value>>,
    /// The bindings from exchanges.
    pub(super) bindings: Remembered<ExchangeBindings>,
}

/// Answers by name.
#[derive(Debug, Default)]
pub(super) struct Remembered<T> {
    answers: Mutex<HashMap<String, Arc<OnceCell<Arc<T>>>>>,
    /// The answer for every other name, if all were listed.
    others: OnceLock<Arc<T>>,
}

impl<T: Default> Remembered<T> {
    /// The answer for a name. Asks for it if nobody has, and waits if somebody else is asking.
    pub(super) async fn get(
        &self,
        name: &str,
        ask: impl Future<Output = Result<T, TransportError>>,
    ) -> Result<Arc<T>, TransportError> {
        match self.cell(name) {
            Ok(cell) => cell.get_or_try_init(|| async { ask.await.map(Arc::new) }).await.cloned(),
            Err(listed) => Ok(listed),
        }
    }

    /// Where the answer is or will be; `Err` with the answer if all were listed, and this name was not among them.
    fn cell(&self, name: &str) -> Result<Arc<OnceCell<Arc<T>>>, Arc<T>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match (answers.get(name), self.others.get()) {
            (Some(cell), _) => Ok(cell.clone()),
            (None, Some(others)) => Err(others.clone()),
            (None, None) => Ok(answers.entry(name.to_owned()).or_default().clone()),
        }
    }

    /// Learns the answers for all names. For every other name the answer is the default.
    pub(super) fn learn_all(&self, all: impl IntoIterator<Item = (String, T)>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, answer) in all {
            answers.insert(name, Arc::new(OnceCell::new_with(Some(Arc::new(answer)))));
        }
        let _ = self.others.set(Arc::default());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn each_name_is_asked_for_once_and_none_after_all_were_listed() {
        let (memory, asked) = (Remembered::<u32>::default(), AtomicU32::new(0));
        let ask = |name: &'static str| {
            memory.get(name, async { Ok(asked.fetch_add(1, Ordering::SeqCst) + 10) })
        };
        let (one, two) = tokio::join!(ask("a"), ask("a"));
        assert_eq!((*one.unwrap(), *two.unwrap()), (10, 10));
        assert_eq!(*ask("b").await.unwrap(), 11);
        memory.learn_all([("a".to_owned(), 1), ("c".to_owned(), 3)]);
        let seen = [ask("a").await, ask("b").await, ask("c").await, ask("d").await];
        assert_eq!(seen.map(|it| *it.unwrap()), [1, 11, 3, 0]);
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}

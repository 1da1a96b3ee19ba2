//! The connection of one consumer: shared with others, until a message that cannot be read has closed it.
//!
//! lapin closes the connection when it cannot parse a message, and the broker delivers that message again on the next
//! one. It is not known which queue the message came from. So each consumer that was on the connection continues on one of its own:
//! only the one with that message keeps losing it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Options, connection::broker_connection::BrokerConnection};

#[derive(Debug)]
pub(crate) struct ConsumerConnection {
    options: Arc<Options>,
    name: &'static str,
    current: Mutex<Arc<BrokerConnection>>,
    shared: Arc<BrokerConnection>,
}

impl ConsumerConnection {
    /// Starts on the shared connection.
    pub(crate) fn new(
        shared: &Arc<BrokerConnection>,
        options: &Arc<Options>,
        name: &'static str,
    ) -> Self {
        let (shared, options) = (shared.clone(), options.clone());
        Self { options, name, current: Mutex::new(shared.clone()), shared }
    }

    /// The connection to use.
    pub(crate) fn current(&self) -> Arc<BrokerConnection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Continues on a connection of its own. Returns whether it had one already, so that the message is its own too.
    pub(crate) fn isolate(&self) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let was_shared = Arc::ptr_eq(&current, &self.shared);
        if was_shared {
            *current = Arc::new(BrokerConnection::new(self.options.clone(), self.name));
        }
        !was_shared
    }
}
